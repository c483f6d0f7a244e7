// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
)

// TestNothingLeavesItsClustersInAnEmptyFleet is about a hub that knows no cluster
// for a moment: what runs must not be removed for that.
func TestNothingLeavesItsClustersInAnEmptyFleet(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := NewDecider(DeciderOptions{Fleet: fleet.NewFleet(clk), Clock: clk})
	b := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
		Placement: &policyv1alpha1.Placement{}, Clusters: []workv1alpha2.TargetCluster{{Name: "member1"}},
	}}
	if _, news, err := d.DecideBinding(b); err != nil || news || len(b.Spec.Clusters) != 1 {
		t.Errorf("the binding has %v (news: %t, error: %v)", b.Spec.Clusters, news, err)
	}

	b.Spec.Clusters = nil
	if _, news, err := d.DecideBinding(b); err != nil || !news {
		t.Errorf("a binding without clusters is told nothing (error: %v)", err)
	}
}
