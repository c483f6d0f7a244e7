// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// sliceFromDecision returns what a PlacementDecision says.
func (c *SchedulingController) sliceFromDecision(p *clusterv1beta1.Placement, number int, object *clusterv1beta1.PlacementDecision) decisionSlice {
	group, err := strconv.Atoi(object.Labels[clusterv1beta1.LabelDecisionGroupIndex])
	if err != nil {
		group = 0 // the only one of most Placements
	}
	s := decisionSlice{Number: number, Group: group, Name: object.Labels[clusterv1beta1.LabelDecisionGroupName]}
	for _, decision := range object.Status.Decisions {
		s.Clusters = append(s.Clusters, decision.ClusterName)
		if decision.Score != nil {
			if s.Scores == nil {
				s.Scores = map[string]int64{}
			}
			s.Scores[decision.ClusterName] = *decision.Score
		}
	}
	ours := object.DeepCopy()
	s.Edited = c.fillDecision(ours, p, s) != nil || fingerprint(ours) != fingerprint(object)
	return s
}

// fillDecision makes a PlacementDecision say what a slice says.
func (c *SchedulingController) fillDecision(object *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement, s decisionSlice) error {
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[clusterv1beta1.LabelPlacement] = p.Name
	object.Labels[clusterv1beta1.LabelDecisionGroupIndex] = strconv.Itoa(s.Group)
	object.Labels[clusterv1beta1.LabelDecisionGroupName] = s.Name
	if err := controllerutil.SetControllerReference(p, object, c.client.Scheme()); err != nil {
		return fmt.Errorf("owning PlacementDecision %q: %w", object.Namespace+"/"+object.Name, err)
	}
	object.Status.Decisions = make([]clusterv1beta1.ClusterDecision, 0, len(s.Clusters))
	for _, cluster := range s.Clusters {
		decision := clusterv1beta1.ClusterDecision{ClusterName: cluster}
		if score, listed := s.Scores[cluster]; listed {
			decision.Score = &score
		}
		object.Status.Decisions = append(object.Status.Decisions, decision)
	}
	return nil
}

// fingerprint returns all that is ours in a PlacementDecision, to compare.
func fingerprint(object *clusterv1beta1.PlacementDecision) string {
	var text strings.Builder
	for _, label := range []string{clusterv1beta1.LabelPlacement, clusterv1beta1.LabelDecisionGroupIndex, clusterv1beta1.LabelDecisionGroupName} {
		value, has := object.Labels[label]
		fmt.Fprintf(&text, "%t=%s ", has, value)
	}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		text.WriteString(string(owner.UID))
	}
	for _, decision := range object.Status.Decisions {
		text.WriteString("\n" + decision.ClusterName + " " + decision.Reason)
		if decision.Score != nil {
			text.WriteString(" " + strconv.FormatInt(*decision.Score, 10))
		}
	}
	if hasNoStatus(object) {
		text.WriteString("\nunwritten")
	}
	return text.String()
}

// hasNoStatus reports whether a PlacementDecision was created, and nothing more.
func hasNoStatus(object *clusterv1beta1.PlacementDecision) bool {
	return object.Status.Decisions == nil
}
