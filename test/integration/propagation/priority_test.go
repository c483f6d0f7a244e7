// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// births are the names of the bindings that were created, in their order.
type births struct {
	mu    sync.Mutex
	names []string
}

// watch is a round tripper that notes what is created.
func (b *births) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/resourcebindings") {
			text, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err //nolint:wrapcheck // it is the transport's own
			}
			request.Body = io.NopCloser(bytes.NewReader(text))
			object := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(text, object); err == nil {
				b.mu.Lock()
				b.names = append(b.names, object.Name)
				b.mu.Unlock()
			}
		}
		return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
	})
}

// ranked returns a policy for the Deployment of its name, of a PriorityClass.
func ranked(name, class string) *policyv1alpha1.PropagationPolicy {
	p := policy(name, policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0].Name = name
	p.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: class}
	return p
}

// priorityOf waits until the binding of a Deployment has a priority, nil for none.
func (w world) priorityOf(name string, want *int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("the binding of %s has its priority", name), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, b); err != nil {
			return err
		}
		switch has := b.Spec.SchedulePriority; {
		case has == nil && want == nil, has != nil && want != nil && has.Priority == *want:
			return nil
		default:
			return fmt.Errorf("it has %v", has)
		}
	})
}

// TestPriority has many Deployments wait, the most important as the last, and the
// PriorityClass of one come later.
func TestPriority(t *testing.T) {
	born := &births{}
	w := newWorld(t, 1)
	w.stop()
	rest := policy("rest", policyv1alpha1.Placement{})
	rest.Spec.Priority = new(int32(-1))
	w.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Value: 1000}, rest, ranked("zoo", "first"))
	const many = 80
	for i := range many {
		w.create(deployment(fmt.Sprintf("web-%02d", i), 1))
	}
	w.create(deployment("zoo", 1))
	w.start(born.watch)
	w.eventually("all have bindings", func() error {
		born.mu.Lock()
		defer born.mu.Unlock()
		if len(born.names) <= many {
			return fmt.Errorf("%d have", len(born.names))
		}
		return nil
	})
	if place := slices.Index(born.names, "zoo-deployment"); place < 0 || place > many/2 {
		t.Errorf("the most important Deployment was number %d of %d", place+1, len(born.names))
	}
	w.priorityOf("zoo", new(int32(1000)))
	w.priorityOf("web-00", nil)

	// A class that comes later, and an event that asks for it until then.
	w.create(ranked("later", "missing"), deployment("later", 1))
	w.told(metav1.NamespaceDefault, "ApplyPolicyFailed", `PriorityClass "missing"`)
	w.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "missing"}, Value: -7})
	w.priorityOf("later", new(int32(-7)))

	// Without the feature gate priorities do not matter, nor whether they exist.
	w.stop()
	w.options.Gates = gates(t, "PriorityBasedScheduling=false")
	w.create(ranked("none", "absent"), deployment("none", 1))
	w.start()
	w.priorityOf("none", nil)
}

// TestPreemption has policies take a Deployment over from each other.
func TestPreemption(t *testing.T) {
	w := newWorld(t, 2)
	w.stop()
	w.options.Gates = gates(t, "PropagationPolicyPreemption=true")
	w.start()
	taking := func(spec *policyv1alpha1.PropagationSpec, priority int32) {
		spec.Priority, spec.Preemption, spec.ResourceSelectors[0].Name = &priority, policyv1alpha1.PreemptAlways, "web"
	}
	web := deployment("web", 1)
	wide := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
			Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
		},
		Spec: policy("wide", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}}).Spec,
	}
	taking(&wide.Spec, 100)
	w.create(wide, web)
	w.on("web", map[string]int32{"member1": 1})

	// Any policy of the namespace takes it over from one without.
	low := policy("low", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}}})
	taking(&low.Spec, 0)
	w.create(low)
	w.on("web", map[string]int32{"member2": 1})
	w.told(metav1.NamespaceDefault, "PreemptPolicySucceed", `PropagationPolicy "low" has taken it over from ClusterPropagationPolicy "wide"`)
	w.claimed(web, "low")

	// One of an equal priority does not; when that of the other falls, it does.
	w.change(low, func() { low.Spec.Priority = new(int32(5)) })
	equal := policy("equal", policyv1alpha1.Placement{})
	taking(&equal.Spec, 5)
	w.create(equal)
	w.change(low, func() { low.Spec.Priority = new(int32(4)) })
	w.on("web", map[string]int32{"member1": 1, "member2": 1})
	w.told(metav1.NamespaceDefault, "PreemptPolicySucceed", `PropagationPolicy "equal" has taken it over from PropagationPolicy "low"`)
	w.claimed(web, "equal")
}

// claimed checks which policy of the namespace has claimed a Deployment.
func (w world) claimed(object *appsv1.Deployment, by string) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.Fatal(err)
	}
	want := map[string]string{policyv1alpha1.AnnotationPropagationPolicyName: by, policyv1alpha1.AnnotationClusterPropagationPolicyName: ""}
	for key, name := range want {
		if object.Annotations[key] != name {
			w.Errorf("annotation %s is %q, want %q", key, object.Annotations[key], name)
		}
	}
}
