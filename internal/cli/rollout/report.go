// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/columns"
)

// StatusReport is how far a rollout is. Its fields are stable.
type StatusReport struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Change is what the command has done.
	Change string `json:"change,omitempty"`
	// Target is what is rolled out, and Objects how many objects that are.
	Target  string `json:"target"`
	Objects int32  `json:"objects"`
	// Revision is the number of the latest change.
	Revision int64 `json:"revision"`
	// Stage is which group it is the turn of, and Group its name.
	Stage    string                        `json:"stage,omitempty"`
	Group    string                        `json:"group,omitempty"`
	Clusters fleetv1alpha1.RolloutClusters `json:"clusters"`
	// Reason is why it is complete, or not.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Outdated says that the status is about an earlier spec.
	Outdated bool `json:"outdated,omitempty"`
	// Next says what to do if it does not go on by itself.
	Next string `json:"next,omitempty"`
}

func (r *StatusReport) fillStatus(of rolloutObject) {
	spec := of.RolloutSpec()
	status := of.RolloutStatus()
	if p := spec.Policy; p != nil {
		r.Target = "policy " + p.Name
	}
	if t := spec.Template; t != nil {
		r.Target = t.Kind + " " + t.Name
	}
	r.Objects = status.Objects
	r.Revision = status.Revision
	r.Stage = status.Stage
	r.Group = status.Group
	r.Clusters = status.Clusters
	r.Outdated = status.ObservedGeneration != of.GetGeneration()
	c := meta.FindStatusCondition(status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
	if c == nil {
		c = meta.FindStatusCondition(status.Conditions, fleetv1alpha1.PropagationRolloutConditionAccepted)
	}
	if c != nil {
		r.Reason = c.Reason
		r.Message = c.Message
	}
	if !r.Outdated {
		r.Next = nextStep(r.Reason, of)
	}
}

// nextStep says what to do about a rollout that does not go on by itself.
func nextStep(reason string, of rolloutObject) string {
	where := of.GetName()
	if of.GetNamespace() != "" {
		where += " -n " + of.GetNamespace()
	} else {
		where += " --cluster-scoped"
	}
	switch reason {
	case fleetv1alpha1.PropagationRolloutReasonTooManyFailures:
		return fmt.Sprintf("Fix the clusters or change what is sent; \"capstan rollout undo %s\" undoes the change.", where)
	case fleetv1alpha1.PropagationRolloutReasonPaused:
		return fmt.Sprintf("\"capstan rollout resume %s\" resumes it.", where)
	case fleetv1alpha1.PropagationRolloutReasonUndone:
		return fmt.Sprintf("Change what is sent; \"capstan rollout resume %s\" rolls out the same change again.", where)
	default:
		return ""
	}
}

// formatReport returns the report for people.
func (r *StatusReport) formatReport() string {
	var b strings.Builder
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	if r.Change != "" {
		fmt.Fprintf(&b, "Rollout %s: %s\n", name, r.Change)
		return b.String()
	}
	fmt.Fprintf(&b, "Rollout %s of %s: revision %d, %s\n", name, r.Target, r.Revision, cmp.Or(r.Reason, "the hub has not processed it yet"))
	if r.Outdated {
		b.WriteString("The hub has not processed the latest change of the rollout yet.\n")
	}
	if r.Stage != "" {
		group := "the clusters in no group"
		if r.Group != "" {
			group = "group " + r.Group
		}
		fmt.Fprintf(&b, "Stage %s (%s), %s\n", r.Stage, group, formatObjectCount(r.Objects))
		c := r.Clusters
		fmt.Fprintf(&b, "Clusters: %d, of which %d have the change: %d healthy, %d progressing, %d failed\n", c.Total, c.Updated, c.Healthy, c.Progressing, c.Failed)
	}
	for _, line := range []string{r.Message, r.Next} {
		if line != "" {
			fmt.Fprintln(&b, columns.OneLine(line)) // messages repeat what members have written
		}
	}
	return b.String()
}

func formatObjectCount(n int32) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

func isConditionTrue(conditions []metav1.Condition, condition string) bool {
	return meta.IsStatusConditionTrue(conditions, condition)
}
