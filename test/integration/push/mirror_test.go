// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// writersMax is how many write conditions of a ClusterConnection: the push agent
// what it finds of the connection, and its part for the cluster what is there.
const writersMax = 2

// TestConditionsAreAboutWhatIsMirrored joins a cluster to a hub with the Cluster
// API. What that mirrors changes the generation of the ClusterConnection: 'capstan
// join' and 'kubectl wait' go on only if the conditions follow, which takes no more
// than one write of each who writes conditions.
func TestConditionsAreAboutWhatIsMirrored(t *testing.T) {
	w := newWorld(t, func(o *registration.SetupOptions) { o.Mirror = true })
	w.want(t, exit.OK, "cluster(member1) is joined successfully\n", "", w.join("member1")...)
	before := w.current(t, map[string]string{})

	for _, zone := range []string{"a", "b"} {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"zone":%q}}}`, zone))
		expect.NoError(t, w.hub.client.Patch(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}, patch))
		w.current(t, map[string]string{"zone": zone})
	}
	for generation, writes := range w.writes(t, before) {
		if writes > writersMax {
			t.Errorf("%d writes of the status at generation %d, want %d at most", writes, generation, writersMax)
		}
	}
	w.want(t, exit.OK, "cluster(member1) is joined successfully\n", "", w.join("member1")...)
	w.want(t, exit.OK, "capstan unjoin member1 --cluster-kubeconfig FILE", "", "unjoin", "member1", "--wait", patience.String())
}

// current waits until the Cluster has the labels, and all conditions of the
// ClusterConnection are about its generation.
func (w *world) current(t *testing.T, labels map[string]string) *fleetv1alpha1.ClusterConnection {
	t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	expect.NothingWrong(t, patience, fmt.Sprintf("all conditions are about the ClusterConnection with labels %v", labels), func() string {
		expect.NoError(t, w.hub.client.Get(t.Context(), client.ObjectKey{Name: "member1"}, connection))
		for key, value := range labels {
			if connection.Labels[key] != value {
				return fmt.Sprintf("its labels are %v", connection.Labels)
			}
		}
		stale := slices.DeleteFunc(slices.Clone(connection.Status.Conditions), func(c metav1.Condition) bool {
			return c.ObservedGeneration == connection.Generation
		})
		if len(connection.Status.Conditions) < 3 || len(stale) > 0 {
			return fmt.Sprintf("of %d conditions these are not about generation %d: %+v", len(connection.Status.Conditions), connection.Generation, stale)
		}
		return ""
	})
	return connection
}

// writes returns how often the status was written since, at each generation.
func (w *world) writes(t *testing.T, since *fleetv1alpha1.ClusterConnection) map[int64]int {
	t.Helper()
	last := &fleetv1alpha1.ClusterConnection{}
	expect.NoError(t, w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(since), last))
	reader, err := client.NewWithWatch(w.hub.config, client.Options{Scheme: w.hub.client.Scheme()})
	expect.NoError(t, err)
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since.ResourceVersion}}
	events, err := reader.Watch(t.Context(), &fleetv1alpha1.ClusterConnectionList{}, from)
	expect.NoError(t, err)
	defer events.Stop()
	writes, generation := map[int64]int{}, since.Generation
	for event := range events.ResultChan() {
		connection, ok := event.Object.(*fleetv1alpha1.ClusterConnection)
		if !ok || event.Type != watch.Modified {
			t.Fatalf("watching the ClusterConnection: %+v", event.Object)
		}
		if connection.Generation == generation {
			writes[generation]++
		}
		generation = connection.Generation
		if connection.ResourceVersion == last.ResourceVersion {
			return writes
		}
	}
	t.Fatal("the watch ended early")
	return nil
}
