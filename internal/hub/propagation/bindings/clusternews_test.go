// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// TestPlacementsAreNotReadWhileTheCacheTells changes clusters, with bindings of a tenant that say
// that placements of a quarter of a megabyte were applied to them. To read these for each change
// would have the clusters and the bindings of all wait.
func TestPlacementsAreNotReadWhileTheCacheTells(t *testing.T) {
	const usual, hostile = 10, 100
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	watch := watchOf(clk, usual)
	for i := range hostile {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint(i), Annotations: map[string]string{
			policyv1alpha1.AnnotationAppliedPlacement: fmt.Sprintf(`{"clusterAffinity":{"clusterNames":["%d"%s]}}`, i, strings.Repeat(`,"a"`, 60_000)),
		}}}
		b.Spec.Placement = &policyv1alpha1.Placement{}
		watch.stakes.Set(b)
	}
	labelled := func(turn int, load string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "other", ResourceVersion: fmt.Sprint(turn + 1), Labels: map[string]string{"agent.example/load": load}}}
		mc.Spec.HubAcceptsClient = true
		return mc
	}
	q := &added{}
	handler := watch.clusterHandler(watch.observeCluster)
	handler.Create(t.Context(), event.CreateEvent{Object: labelled(0, "high"), IsInInitialList: true}, q)
	allocated := testing.AllocsPerRun(1, func() {
		handler.Update(t.Context(), event.UpdateEvent{ObjectNew: labelled(1, "high"), ObjectOld: labelled(0, "high")}, q)
	})
	for turn := range 100 {
		handler.Update(t.Context(), event.UpdateEvent{ObjectNew: labelled(turn+2, []string{"low", "high"}[turn%2])}, q)
	}
	handler.Update(t.Context(), event.UpdateEvent{ObjectNew: labelled(102, "low")}, q)
	if q.now > 0 || allocated > 10_000 {
		t.Errorf("%d bindings were looked for while the cache told of clusters, by %.0f allocations", q.now, allocated)
	}
	if kept := len(watch.news.waiting["other"]); kept != apartMax {
		t.Errorf("%d changes of a cluster are kept apart, want %d", kept, apartMax)
	}
	if !watch.followChanges(q) || watch.followChanges(q) {
		t.Error("the changes are not followed together")
	}
	if q.now < usual+hostile {
		t.Errorf("bindings are looked at %d times, want that of the %d that care, and of the %d that may", q.now, usual, hostile)
	}
}

// TestAGapCountsAsAClusterThatComes has a cluster change so often that not all is known of it.
func TestAGapCountsAsAClusterThatComes(t *testing.T) {
	news := newClusterNews()
	state := func(n int) *view.Cluster { return &view.Cluster{Name: "a", Region: fmt.Sprint(n)} }
	for n := range 2 * apartMax {
		news.recordChange("a", state(n), state(n+1))
	}
	all := news.takeChanges()["a"]
	for n, change := range all {
		last := n == apartMax-1
		if change.gap != last || change.before.Region != fmt.Sprint(n) || !last && change.after.Region != fmt.Sprint(n+1) {
			t.Errorf("change %d is from %s to %s, with a gap: %t", n, change.before.Region, change.after.Region, change.gap)
		}
	}
	if is := all[len(all)-1].after.Region; is != fmt.Sprint(2*apartMax) {
		t.Errorf("in the end it is known to be %s", is)
	}
	if len(news.takeChanges()) > 0 {
		t.Error("what was taken is there still")
	}
}

// TestAGapEndsWithWhatTheClusterIs has what a watch tells noted after what another one has told since:
// nothing but the fleet knows then what the cluster has become.
func TestAGapEndsWithWhatTheClusterIs(t *testing.T) {
	const bindings = 10
	watch := watchOf(clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)), bindings)
	of := func(version, load string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "other", ResourceVersion: version, Labels: map[string]string{"agent.example/load": load}}}
		mc.Spec.HubAcceptsClient = true
		return mc
	}
	before, high := watch.observeCluster(of("1", "high"), false)
	for range apartMax {
		watch.news.recordChange("other", high, high)
	}
	_, low := watch.observeCluster(of("2", "low"), false)
	watch.news.recordChange("other", high, low)
	watch.news.recordChange("other", before, high)
	q := &added{}
	if watch.followChanges(q); q.now < bindings {
		t.Errorf("%d bindings are looked at that ask for what the cluster is, want %d", q.now, bindings)
	}
}
