// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// writes counts what the controllers write, by kind of object, and of which objects
// they read a single one. What the server refuses is none: a cache that is a moment
// behind costs a request now and then.
type writes struct {
	mu     sync.Mutex
	counts map[string]int
}

// resourcePath has the resource, and the subresource if there is one.
var resourcePath = regexp.MustCompile(`/(?:namespaces/[^/]+/)?([a-z]+)(/[^/]+)?(/status)?$`)

// count is a round tripper that counts and sends on.
func (w *writes) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode < http.StatusBadRequest {
			found := resourcePath.FindStringSubmatch(request.URL.Path)
			if found != nil && found[1] != "events" && found[1] != "leases" && (request.Method != http.MethodGet || found[2] != "") {
				w.mu.Lock()
				w.counts[request.Method+" "+found[1]+found[3]]++
				w.mu.Unlock()
			}
		}
		return response, err //nolint:wrapcheck // it is the transport's own
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestWritesOfADeployment counts what it costs the hub to send a Deployment to
// three clusters: one claim, a binding and its status, a work for each cluster, and
// a few writes of status as they answer. Each cluster has namespace default.
func TestWritesOfADeployment(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := harness.NewWorld(t, servers, 3, counted.count)
	w.CreateAll(harness.Deployment("web", 2), harness.Policy("web", policyv1alpha1.Placement{}))
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2, "member3": 2})

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	for what, want := range map[string]int{
		"PATCH deployments": 1, "POST resourcebindings": 1, "PATCH resourcebindings": 0, "POST manifestworks": 3, "PATCH manifestworks": 0,
	} {
		if got := counted.counts[what]; got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	if status := counted.counts["PATCH resourcebindings/status"]; status > 4 { // chosen, and once for each cluster at most
		t.Errorf("the status of the binding was written %d times", status)
	}
	// What the claim returns is what is sent. A watch may be faster than an answer now and then.
	if reads := counted.counts["GET deployments"]; reads > 3 {
		t.Errorf("the Deployment was read %d times", reads)
	}
	if status := counted.counts["PATCH deployments/status"]; status > 3 {
		t.Errorf("the status of the Deployment was written %d times", status)
	}
}

// TestARestartWritesNothing starts the controllers a second time.
func TestARestartWritesNothing(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}))
	everywhere := map[string]int32{"member1": 1, "member2": 1}
	for _, name := range []string{"a", "b", "c"} {
		w.CreateAll(harness.Deployment(name, 1))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.RunsOn(name, everywhere)
	}
	w.StopControllers()

	counted := &writes{counts: map[string]int{}}
	w.StartControllers(counted.count)
	w.CreateAll(harness.Deployment("d", 1)) // it is served when all others have been looked at, or soon
	w.RunsOn("d", everywhere)
	for _, name := range []string{"a", "b", "c"} {
		w.RunsOn(name, everywhere)
	}

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	if claims, bindings, works := counted.counts["PATCH deployments"], counted.counts["POST resourcebindings"], counted.counts["POST manifestworks"]; claims != 1 || bindings != 1 || works != 2 {
		t.Errorf("more was written than the new Deployment takes: %v", counted.counts)
	}
	if patched := counted.counts["PATCH manifestworks"] + counted.counts["PATCH resourcebindings"]; patched != 0 {
		t.Errorf("what was right was written again: %v", counted.counts)
	}
}

// TestAChangedCustomizationWritesWhatItChanges has one script say something else of
// one object of many, all of which have to be looked at.
func TestAChangedCustomizationWritesWhatItChanges(t *testing.T) {
	many := 100
	if *long {
		many = 1000
	}
	counted := &writes{counts: map[string]int{}}
	w := harness.NewWorld(t, servers, 1, counted.count)
	custom := w.CustomizeKind("many", "v1", "ConfigMap", configv1alpha1.CustomizationRules{ReplicaResource: rule("function GetReplicas(obj)\n return 1\nend")})
	placed := harness.Policy("many", policyv1alpha1.Placement{})
	placed.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{
		APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"many": "yes"}},
	}
	w.CreateAll(placed)
	for i := range many {
		w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"many": "yes"}}})
	}
	w.Eventually("all bindings say that their object is there", func() error { return w.BindingsAre(many, 1) })
	w.BecomesQuiet(counted.written)

	counted.reset()
	w.ChangeObject(custom, func() {
		custom.Spec.Customizations.ReplicaResource = rule("function GetReplicas(obj)\n if obj.metadata.name == 'many-7' then return 2 end\n return 1\nend")
	})
	w.Eventually("the binding of many-7 asks for two", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "many-7-configmap"}, b); err != nil {
			return err
		}
		if b.Spec.Replicas != 2 || len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Replicas != 2 {
			return fmt.Errorf("it asks for %d, of which there are %v", b.Spec.Replicas, b.Spec.Clusters)
		}
		return nil
	})
	w.BecomesQuiet(counted.written)
	for what, count := range counted.all() {
		if !strings.HasPrefix(what, http.MethodGet) && count > 3 {
			t.Errorf("one object of %d became different, and there was %q %d times: %v", many, what, count, counted.all())
		}
	}
}

// written returns what was written so far.
func (w *writes) written() string {
	all := w.all()
	maps.DeleteFunc(all, func(what string, _ int) bool { return strings.HasPrefix(what, http.MethodGet) })
	return fmt.Sprint(all)
}

func (w *writes) all() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

func (w *writes) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.counts)
}
