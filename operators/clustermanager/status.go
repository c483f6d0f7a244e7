// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/render"
)

// report writes what a pass found into the status, in memory.
func (c *Controller) report(p *pass, o outcome) {
	complete := o.err == nil && o.waiting == ""
	remember(p.cm, p.records, complete)
	noteApplied(p.cm, o)
	if p.rollouts != nil {
		noteRegistration(p.cm, p.rollouts)
	}
	if o.retried {
		return // of a generation that was not installed yet nothing may look finished
	}
	if p.rollouts != nil || o.terminal {
		p.cm.Status.ObservedGeneration = p.cm.Generation
	}
	if p.rollouts != nil {
		noteProgress(p.cm, p.rollouts)
	}
}

func noteApplied(cm *operatorv1.ClusterManager, o outcome) {
	applied := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionApplied, Status: metav1.ConditionTrue,
		Reason: operatorv1.ClusterManagerReasonApplied, Message: "everything of the hub is installed",
	}
	switch {
	case o.err != nil:
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, o.reason, o.err.Error()
	case o.waiting != "" && isTrue(cm, operatorv1.ClusterManagerConditionApplied):
		// Installed before; the condition Progressing tells of the change.
	case o.waiting != "":
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, o.reason, o.waiting
	}
	conditions.Set(&cm.Status.Conditions, cm.Generation, applied)
}

func noteProgress(cm *operatorv1.ClusterManager, rollouts []rollout) {
	progressing := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionProgressing, Status: metav1.ConditionFalse,
		Reason: operatorv1.ClusterManagerReasonUpToDate, Message: "all components run as the spec has them",
	}
	if rolling := rollingNow(rollouts); rolling != "" {
		progressing.Status, progressing.Reason = metav1.ConditionTrue, operatorv1.ClusterManagerReasonDeploymentRolling
		progressing.Message = rolling
	}
	conditions.Set(&cm.Status.Conditions, cm.Generation, progressing)

	conditions.Set(&cm.Status.Conditions, cm.Generation, metav1.Condition{
		Type: operatorv1.ClusterManagerConditionHubPlacementDegraded, Status: metav1.ConditionFalse,
		Reason:  operatorv1.ClusterManagerReasonPlacementNotInstalled,
		Message: "this version has no placement controller: Placements are not decided",
	})
}

func noteRegistration(cm *operatorv1.ClusterManager, rollouts []rollout) {
	var missing []string
	for _, r := range rollouts {
		if r.countsFor == operatorv1.ClusterManagerConditionHubRegistrationDegraded && r.available < r.wanted {
			missing = append(missing, r.String())
		}
	}
	registration := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionHubRegistrationDegraded, Status: metav1.ConditionFalse,
		Reason: operatorv1.ClusterManagerReasonRegistrationFunctional, Message: "all pods of registration are available",
	}
	if len(missing) > 0 {
		registration.Status, registration.Reason = metav1.ConditionTrue, operatorv1.ClusterManagerReasonUnavailableRegistrationPod
		registration.Message = strings.Join(missing, "; ")
	}
	conditions.Set(&cm.Status.Conditions, cm.Generation, registration)
}

func noteGates(cm *operatorv1.ClusterManager, unknown []string) {
	valid := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionValidFeatureGates, Status: metav1.ConditionTrue,
		Reason: operatorv1.ReasonFeatureGatesAllValid, Message: "all feature gates exist",
	}
	if len(unknown) > 0 {
		valid.Status, valid.Reason = metav1.ConditionFalse, operatorv1.ReasonInvalidFeatureGatesExisting
		valid.Message = "these feature gates do not exist and are ignored: " + strings.Join(unknown, ", ")
	}
	conditions.Set(&cm.Status.Conditions, cm.Generation, valid)
}

// paused tells whether the user wants everything left as it is.
func paused(cm client.Object) bool {
	on, err := strconv.ParseBool(cm.GetAnnotations()[operatorv1.AnnotationPaused])
	return err == nil && on
}

func notePaused(cm *operatorv1.ClusterManager) {
	if !paused(cm) {
		meta.RemoveStatusCondition(&cm.Status.Conditions, operatorv1.ClusterManagerConditionPaused)
		return
	}
	conditions.Set(&cm.Status.Conditions, cm.Generation, metav1.Condition{
		Type: operatorv1.ClusterManagerConditionPaused, Status: metav1.ConditionTrue,
		Reason: operatorv1.ClusterManagerReasonPausedByAnnotation,
		Message: fmt.Sprintf("the annotation %s is set: nothing is installed, changed or removed until it is taken away",
			operatorv1.AnnotationPaused),
	})
}

func isTrue(cm *operatorv1.ClusterManager, conditionType string) bool {
	return meta.IsStatusConditionTrue(cm.Status.Conditions, conditionType)
}

// remember puts the records into the status. After a pass that was not complete
// what was known of the objects that it did not come to is kept.
func remember(cm *operatorv1.ClusterManager, records []render.Record, complete bool) {
	var related []operatorv1.RelatedResourceMeta
	var generations []operatorv1.GenerationStatus
	for _, r := range records {
		object := operatorv1.RelatedResourceMeta{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
		}
		if !slices.Contains(related, object) { // one of a hosted hub can be on both clusters
			related = append(related, object)
		}
		if r.Generation > 0 {
			generations = append(generations, operatorv1.GenerationStatus{
				Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
				LastGeneration: r.Generation,
			})
		}
	}
	if !complete {
		for _, old := range cm.Status.RelatedResources {
			if !slices.Contains(related, old) {
				related = append(related, old)
			}
		}
		for _, old := range cm.Status.Generations {
			if !slices.ContainsFunc(generations, func(g operatorv1.GenerationStatus) bool {
				g.LastGeneration = old.LastGeneration
				return g == old
			}) {
				generations = append(generations, old)
			}
		}
	}
	cm.Status.RelatedResources, cm.Status.Generations = related, generations
}

// recordedGeneration returns the generation that the status has for the object,
// or 0.
func recordedGeneration(cm *operatorv1.ClusterManager, record render.Record) int64 {
	for _, g := range cm.Status.Generations {
		if g.Group == record.Group && g.Resource == record.Resource && g.Namespace == record.Namespace && g.Name == record.Name {
			return g.LastGeneration
		}
	}
	return 0
}

func ours(object client.Object, name string) bool {
	return object.GetLabels()[operatorv1.LabelCreatedByClusterManager] == name
}
