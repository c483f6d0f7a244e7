// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// Clusters that a rollout keeps from the latest change do not have it, whatever
// their agents say of an earlier one.
func TestClustersThatWaitForARollout(t *testing.T) {
	why := staged.WaitingMessage(types.NamespacedName{Namespace: "shop", Name: "web"}) + "."
	f := web("")
	f.Clusters = []clusterv1.ManagedCluster{cluster("first"), cluster("later"), cluster("new")}
	f.Binding = &BindingObject{Kind: kindBinding, Spec: workv1alpha2.ResourceBindingSpec{Clusters: []workv1alpha2.TargetCluster{{Name: "first"}, {Name: "later"}, {Name: "new"}}}}
	f.Binding.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{
		{ClusterName: "first", Applied: true}, {ClusterName: "later", AppliedMessage: why}, {ClusterName: "new", AppliedMessage: why},
	}
	f.Works = []workv1.ManifestWork{work("first", func(*workv1.ManifestWork) {}), work("later", func(*workv1.ManifestWork) {})}
	trace := BuildTrace(f, noon)
	for i, want := range []ClusterTrace{{Name: "first", Applied: appliedYes}, {Name: "later", Applied: appliedWaits, Reason: why}, {Name: "new", Applied: appliedWaits, Reason: why}} {
		if got := trace.Clusters[i]; got.Name != want.Name || got.Applied != want.Applied || got.Reason != want.Reason {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if want := "1 of 3 chosen clusters have it as desired"; trace.Summary != want {
		t.Errorf("got %q, want %q", trace.Summary, want)
	}
}
