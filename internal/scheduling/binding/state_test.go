// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestWhoseClustersDoNotCount is about bindings that somebody has suspended.
func TestWhoseClustersDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		reason    string
		suspended bool
		placement *policyv1alpha1.Placement
		scheduled bool
		want      bool
	}{
		"as it was created": {"a webhook wants to decide first", true, &policyv1alpha1.Placement{}, false, true},
		"later":             {"what runs stays", true, &policyv1alpha1.Placement{}, true, false},
		"not suspended":     {"its status is about to be written", false, &policyv1alpha1.Placement{}, false, false},
		"attached":          {"it goes where others go", true, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &workv1alpha2.ResourceBinding{}
			b.Spec.Placement = c.placement
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &c.suspended}
			if c.scheduled {
				b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionScheduled}}
			}
			if got := ClustersOnHold(b); got != c.want {
				t.Errorf("%s: held is %t, want %t", c.reason, got, c.want)
			}
		})
	}
}
