// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// clustersNamedMax is how many clusters a record names.
const clustersNamedMax = 10

// MoveRecord is the last move of an object, as its binding has it.
type MoveRecord struct {
	At metav1.Time `json:"at"`
	// Moves is how many replicas went to another cluster.
	Moves int64 `json:"moves"`
	// What says which and why, for people.
	What string `json:"what"`
}

// LastMove reads the last move from the annotations of a binding; the zero value is
// none. What somebody else wrote there is none, either.
func LastMove(annotations map[string]string) MoveRecord {
	var r MoveRecord
	if err := json.Unmarshal([]byte(annotations[fleetv1alpha1.AnnotationRebalanced]), &r); err != nil {
		return MoveRecord{}
	}
	return r
}

// AnnotationText returns the record as the annotation has it.
func (r MoveRecord) AnnotationText() string {
	text, _ := json.Marshal(r) //nolint:errchkjson // it has a time, a number and a text
	return string(text)
}

// RecordOfMove returns the record of a step.
func (s *Step) RecordOfMove(before Replicas, at time.Time) MoveRecord {
	changes := CompareReplicas(before, s.To)
	reason := "the room in clusters has changed"
	var named, gained []string
	for n, c := range changes {
		if n < clustersNamedMax {
			named = append(named, fmt.Sprintf("%s %d -> %d", c.Cluster, c.Before, c.After))
		}
		if c.Before == 0 {
			gained = append(gained, c.Cluster)
		}
	}
	if more := len(changes) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more clusters", more))
	}
	if len(gained) > 0 {
		reason = "there is room in " + strings.Join(gained[:min(len(gained), clustersNamedMax)], ", ")
	}
	what := fmt.Sprintf("%s moved: %s, as %s", FormatReplicaCount(s.Moves), strings.Join(named, ", "), reason)
	if s.Rest > 0 {
		what += fmt.Sprintf("; %d more would move", s.Rest)
	}
	return MoveRecord{At: metav1.NewTime(at), Moves: s.Moves, What: what}
}

// FormatReplicaCount returns a number of replicas in words.
func FormatReplicaCount(replicas int64) string {
	if replicas == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", replicas)
}
