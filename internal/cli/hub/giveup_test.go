// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// one has one cluster or none, and keeps what is written.
type one struct {
	client.Client
	cluster *clusterv1.ManagedCluster
	patches []string
}

func (o *one) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	cluster, ok := into.(*clusterv1.ManagedCluster)
	if o.cluster == nil || !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "managedclusters"}, key.Name)
	}
	o.cluster.DeepCopyInto(cluster)
	return nil
}

func (o *one) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	o.patches = append(o.patches, string(data))
	return err
}

func TestOnlyAClusterThatIsBeingDeletedIsGivenUp(t *testing.T) {
	deleting := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}}
	for name, c := range map[string]struct {
		reason  string
		cluster *clusterv1.ManagedCluster
		want    string
	}{
		"is being deleted": {
			reason: "that was asked for", cluster: deleting,
			want: `{"metadata":{"annotations":{"cluster.open-cluster-management.io/detach-deadline":"0s"}},"spec":{"leaseDurationSeconds":15}}`,
		},
		"is there":     {reason: "somebody made it anew", cluster: &clusterv1.ManagedCluster{}},
		"is not there": {reason: "it is gone already"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &one{cluster: c.cluster}
			if err := GiveUp(t.Context(), hub, "c", 0); err != nil {
				t.Fatal(err)
			}
			if got := len(hub.patches); (got == 1) != (c.want != "") || got > 1 || got == 1 && hub.patches[0] != c.want {
				t.Errorf("%s: wrote %q, want %q", c.reason, hub.patches, c.want)
			}
		})
	}
}

func TestHurryLeavesAnAgentTheTimeOfOneHeartbeat(t *testing.T) {
	const missed, jitter = 5, 1.1
	for before, want := range map[int32]int32{0: 15, 60: 15, 300: 75, 61: 15, 40: 15, 20: 15, 15: 15, 5: 5, 1: 1} {
		got := hastyLeaseSeconds(before)
		if got != want {
			t.Errorf("of %d s it makes %d s, want %d s", before, got, want)
		}
		if before == 0 {
			before = leaseSecondsDefault
		}
		if float64(got*missed) <= float64(before)*jitter {
			t.Errorf("an agent that beats every %d s would be given up after %d s", before, got*missed)
		}
	}
}
