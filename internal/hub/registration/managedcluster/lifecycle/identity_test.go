// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/rights"
)

// The cluster "mine" is uid, was created at noon, and is to be accepted.
func TestWhoIsFirstOfTwoThatAreTheSameCluster(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	other := func(name string, created time.Time, change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(created),
			Annotations: map[string]string{clusterv1.AnnotationClusterUID: "uid"},
		}}
		mc.Spec.HubAcceptsClient = true
		if change != nil {
			change(mc)
		}
		return mc
	}
	condition := func(status metav1.ConditionStatus, reason string) func(*clusterv1.ManagedCluster) {
		return func(mc *clusterv1.ManagedCluster) { setAccepted(mc, status, reason, "") }
	}
	isAccepted := condition(metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	held := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{
		Name: "other", Annotations: map[string]string{fleetv1alpha1.AnnotationClusterID: "uid"},
	}}
	pushed := held.DeepCopy()
	pushed.Spec.SyncMode, pushed.Spec.APIEndpoint = fleetv1alpha1.SyncModePush, "https://other"
	cases := map[string]struct {
		reason  string
		objects []client.Object
		want    string
		// excludes says that mine is kept out although the hub is not strict.
		excludes bool
	}{
		"nobody else": {reason: "there is one only"},
		"another one that is accepted": {
			reason: "it was first, although it is younger", want: "other",
			objects: []client.Object{other("other", noon.Add(time.Hour), isAccepted), held},
		},
		"a Push cluster that is accepted": {
			reason: "what the hub dials has one name only", want: "other", excludes: true,
			objects: []client.Object{other("other", noon, isAccepted), pushed},
		},
		"an older one that waits and will be dialled": {
			reason: "it is told by its connection, which is there already", want: "other", excludes: true,
			objects: []client.Object{other("other", noon.Add(-time.Second), nil), pushed},
		},
		"an accepted one that says so only now": {
			reason: "what an accepted cluster claims does not count", objects: []client.Object{other("other", noon.Add(-time.Hour), isAccepted)},
		},
		"one that is denied": {
			reason: "it keeps nobody out", objects: []client.Object{held, other("other", noon, func(mc *clusterv1.ManagedCluster) {
				isAccepted(mc)
				mc.Spec.HubAcceptsClient = false
			})},
		},
		"one that is gone": {reason: "what is left of it keeps nobody out", objects: []client.Object{held}},
		"an older one that waits": {
			reason: "the older one is first", want: "other", objects: []client.Object{other("other", noon.Add(-time.Second), nil)},
		},
		"a younger one that waits": {reason: "the older one is first", objects: []client.Object{other("other", noon.Add(time.Second), nil)}},
		"one of the same second":   {reason: "the name decides", want: "also", objects: []client.Object{other("also", noon, nil)}},
		"an older one that nobody wants": {
			reason:  "anybody could make one, to keep us out",
			objects: []client.Object{other("other", noon.Add(-time.Hour), func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = false })},
		},
		"an older one that is refused": {
			reason: "both wait for a third one; the older one goes first", want: "other",
			objects: []client.Object{other("other", noon.Add(-time.Hour), condition(metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined))},
		},
		"an older one that cannot be accepted": {
			reason:  "nobody knows whether it ever will be",
			objects: []client.Object{other("other", noon.Add(-time.Hour), condition(metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable))},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mine := other("mine", noon, nil)
			c := controllerOf(t, append(tc.objects, mine)...)
			for _, strict := range []bool{true, false} {
				c.Unique = strict
				got, err := c.identify(t.Context(), mine)
				if err != nil || got.first != tc.want {
					t.Errorf("the cluster that was first is %q (%v), want %q: %s", got.first, err, tc.want, tc.reason)
				}
				if want := tc.want != "" && strict || tc.excludes; got.excluded != want {
					t.Errorf("kept out: %t, want %t, where every cluster has one name: %t", got.excluded, want, strict)
				}
			}
		})
	}
}

// TestManyTwinsAreNotLookedAt has a joiner have many clusters say that they are one that is in the fleet. Each
// of them is looked at, and must not look at all the others.
func TestManyTwinsAreNotLookedAt(t *testing.T) {
	twin := func(i int, reason string, status metav1.ConditionStatus) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("twin-", i), Annotations: map[string]string{clusterv1.AnnotationClusterUID: "uid"},
		}}
		mc.Spec.HubAcceptsClient = true
		setAccepted(mc, status, reason, "")
		return mc
	}
	const accepted, refused = clusterv1.ManagedClusterReasonHubClusterAdminAccepted, clusterv1.ManagedClusterReasonAlreadyJoined
	objects := []client.Object{&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{
		Name: "twin-0", Annotations: map[string]string{fleetv1alpha1.AnnotationClusterID: "uid"},
	}}, twin(0, accepted, metav1.ConditionTrue)}
	for i := range 100 {
		objects = append(objects, twin(2*i+1, accepted, metav1.ConditionTrue), twin(2*i+2, refused, metav1.ConditionFalse))
	}
	c := controllerOf(t, objects...)
	read := 0
	c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			err := c.List(ctx, list, o...)
			read += meta.LenList(list)
			return err
		},
	})
	for _, mine := range objects[2:4] {
		got, err := c.identify(t.Context(), mine.(*clusterv1.ManagedCluster))
		if err != nil || got.first != "twin-0" {
			t.Errorf("%s: the cluster that was first is %q (%v)", mine.GetName(), got.first, err)
		}
	}
	if read > 2 {
		t.Errorf("to look at two of 200 twins, %d others are looked at, want the one that has the identity, once for each", read)
	}
}

// controllerOf returns a controller whose cache has the objects.
func controllerOf(t *testing.T, objects ...client.Object) *ClusterLifecycleController {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, i := range indexes(true) {
		b = b.WithIndex(i.of, i.name, i.values)
	}
	c := b.Build()
	return NewClusterLifecycleController(ClusterLifecycleDeps{Client: c, Live: c, Rights: rights.AllRights()})
}

func TestOneOfManyAtOnceGetsAnIdentity(t *testing.T) {
	var h identityHolders
	var group sync.WaitGroup
	winners := make(chan string, 100)
	for i := range cap(winners) {
		group.Go(func() {
			name := fmt.Sprint(i)
			if h.takeIdentity("uid", name, func(string) bool { return true }) == name {
				winners <- name
			}
		})
	}
	group.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d clusters have the same identity", len(winners))
	}
	h.dropIdentity(<-winners)
	if got := h.takeIdentity("uid", "next", func(string) bool { return true }); got != "next" {
		t.Errorf("%q has the identity that was given back", got)
	}
}

// TestAClusterHasOneIdentity is about an agent that says another one again and again, on a hub
// that keeps none for its cluster.
func TestAClusterHasOneIdentity(t *testing.T) {
	var h identityHolders
	counts := func(string) bool { return true }
	for i := range 100 {
		h.takeIdentity(fmt.Sprint("uid-", i), "liar", counts)
	}
	if len(h.names) != 1 || len(h.ids) != 1 {
		t.Errorf("one cluster has %d identities, and %d clusters have one", len(h.names), len(h.ids))
	}
	if got := h.takeIdentity("uid-7", "honest", counts); got != "honest" {
		t.Errorf("%q has the identity that it has left", got)
	}
	if got := h.takeIdentity("uid-99", "honest", counts); got != "liar" {
		t.Errorf("%q has the identity of another", got)
	}
	if got := h.takeIdentity("uid-99", "honest", func(string) bool { return false }); got != "honest" {
		t.Errorf("%q has the identity, and does not count", got)
	}
	h.dropIdentity("liar")
	if h.names["uid-99"] != "honest" || len(h.names) != 1 {
		t.Errorf("the identities are those of %v, want one of who has taken it over", h.names)
	}
}
