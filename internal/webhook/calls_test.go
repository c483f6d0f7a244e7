// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"maps"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/work"
)

// calls counts the calls of each path.
type calls struct {
	mu    sync.Mutex
	count map[string]int
}

// of returns the handlers, counted.
func (c *calls) of(handlers map[string]http.Handler) map[string]http.Handler {
	counted := map[string]http.Handler{}
	for path, handler := range handlers {
		counted[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			c.count[path]++
			c.mu.Unlock()
			handler.ServeHTTP(w, r)
		})
	}
	c.take()
	return counted
}

// take returns the counts since the last call.
func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.count
	c.count = map[string]int{}
	return taken
}

// TestInstalledWebhooksAreCalledForWhatTheyLookAt proves for each field that a rule looks at that the API server
// calls the webhook about it, and that it does not for the changes which agents
// and controllers make all the time.
func TestInstalledWebhooksAreCalledForWhatTheyLookAt(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	count := h.count
	const mutate, validate = cluster.MutateClusterPath, cluster.ValidateClusterPath
	both := map[string]int{mutate: 1, validate: 1}
	count.take()
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "called"}}
	if err := admin.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, admin, c)
	if diff := cmp.Diff(both, count.take()); diff != "" {
		t.Errorf("calls for a creation (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		name   string
		change func()
		want   map[string]int
	}{
		{name: "an annotation", change: func() { c.Annotations["a"] = "b" }},
		{name: "a finalizer", change: func() { c.Finalizers = append(c.Finalizers, "a.example/b") }},
		{name: "a label", change: func() { c.Labels["a"] = "b" }},
		{name: "the annotation of those that wait", change: func() { delete(c.Annotations, clusterv1.AnnotationAwaitingAcceptance) }, want: map[string]int{mutate: 1}},
		{name: "the label in its place", change: func() { c.Labels[clusterv1.LabelAwaitingAcceptance] = "x" }, want: map[string]int{mutate: 1}},
		{name: "acceptance", change: func() { c.Spec.HubAcceptsClient = true }, want: both},
		{name: "denial", change: func() { c.Spec.HubAcceptsClient = false }, want: both},
		{name: "an address", change: func() {
			c.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://x.example"}}
		}, want: both},
		{name: "a taint", change: func() { c.Spec.Taints = nil }, want: map[string]int{mutate: 1}},
		{name: "another set", change: func() { c.Labels[clusterv1.LabelClusterSet] = "blue" }, want: map[string]int{validate: 1}},
		{name: "no set", change: func() { delete(c.Labels, clusterv1.LabelClusterSet) }, want: both},
		{name: "no labels", change: func() { c.Labels = nil }, want: map[string]int{mutate: 1}},
		{name: "no finalizers", change: func() { c.Finalizers = nil }},
	} {
		tc.change()
		if err := admin.Update(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		caughtUp(t, admin, c)
		got := count.take()
		if diff := cmp.Diff(tc.want, got); len(tc.want)+len(got) > 0 && diff != "" {
			t.Errorf("calls for %s (-want +got):\n%s", tc.name, diff)
		}
	}
	if c.Labels[clusterv1.LabelClusterSet] != clusterv1.DefaultClusterSet {
		t.Errorf("a cluster without labels is in the set %q, want the default one", c.Labels[clusterv1.LabelClusterSet])
	}
}

// caughtUp waits until the API server's own cache has the object as it was
// written. With an older one it first asks the webhooks about the next change
// and those before it at once.
func caughtUp(t *testing.T, admin client.Client, written client.Object) {
	t.Helper()
	notOlder := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: written.GetResourceVersion()}}
	seen := deepcopy.CopyObject(written)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(written), seen, notOlder); err != nil {
		t.Fatal(err)
	}
}

func TestInstalledWebhooksAreCalledForWhatTheyLookAtInWorks(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	count := h.count
	validated := map[string]int{work.ValidateWorkPath: 1}
	count.take()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "called", Labels: map[string]string{clusterv1.LabelClusterName: "called"}}}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "called", Name: "w"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`),
	}}}
	for _, object := range []client.Object{namespace, w} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp(t, admin, w)
	created := maps.Clone(validated)
	created[work.MutateWorkPath] = 1
	if diff := cmp.Diff(created, count.take()); diff != "" {
		t.Errorf("calls for the creation of a work (-want +got):\n%s", diff)
	}
	w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	if err := admin.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, admin, w)
	if diff := cmp.Diff(validated, count.take()); diff != "" {
		t.Errorf("calls for a spec (-want +got):\n%s", diff)
	}
	w.Finalizers = nil
	if err := admin.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := count.take(); len(got) > 0 {
		t.Errorf("calls for finalizers: %v, want none", got)
	}
}
