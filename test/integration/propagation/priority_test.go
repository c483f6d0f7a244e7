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

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
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
	p := harness.Policy(name, policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0].Name = name
	p.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: class}
	return p
}

// TestPriority has many Deployments wait, the most important as the last, and the
// PriorityClass of one come later.
func TestPriority(t *testing.T) {
	born := &births{}
	w := harness.NewWorld(t, servers, 1)
	w.StopControllers()
	rest := harness.Policy("rest", policyv1alpha1.Placement{})
	rest.Spec.Priority = new(int32(-1))
	w.CreateAll(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Value: 1000}, rest, ranked("zoo", "first"))
	const many = 80
	for i := range many {
		w.CreateAll(harness.Deployment(fmt.Sprintf("web-%02d", i), 1))
	}
	w.CreateAll(harness.Deployment("zoo", 1))
	w.StartControllers(born.watch)
	w.Eventually("all have bindings", func() error {
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
	w.HasPriority("zoo", new(int32(1000)))
	w.HasPriority("web-00", nil)

	// A class that comes later, and an event that asks for it until then.
	w.CreateAll(ranked("later", "missing"), harness.Deployment("later", 1))
	w.NamespaceHasEvent(metav1.NamespaceDefault, "ApplyPolicyFailed", `PriorityClass "missing"`)
	w.CreateAll(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "missing"}, Value: -7})
	w.HasPriority("later", new(int32(-7)))

	// Without the feature gate priorities do not matter, nor whether they exist.
	w.StopControllers()
	w.Options.Gates = harness.Gates(t, "PriorityBasedScheduling=false")
	w.CreateAll(ranked("none", "absent"), harness.Deployment("none", 1))
	w.StartControllers()
	w.HasPriority("none", nil)
}

// TestPreemption has policies take a Deployment over from each other.
func TestPreemption(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.StopControllers()
	w.Options.Gates = harness.Gates(t, "PropagationPolicyPreemption=true")
	w.StartControllers()
	taking := func(spec *policyv1alpha1.PropagationSpec, priority int32) {
		spec.Priority, spec.Preemption, spec.ResourceSelectors[0].Name = &priority, policyv1alpha1.PreemptAlways, "web"
	}
	web := harness.Deployment("web", 1)
	wide := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
			Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
		},
		Spec: harness.Policy("wide", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}}).Spec,
	}
	taking(&wide.Spec, 100)
	w.CreateAll(wide, web)
	w.RunsOn("web", map[string]int32{"member1": 1})

	// Any policy of the namespace takes it over from one without.
	low := harness.Policy("low", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}}})
	taking(&low.Spec, 0)
	w.CreateAll(low)
	w.RunsOn("web", map[string]int32{"member2": 1})
	w.NamespaceHasEvent(metav1.NamespaceDefault, "PreemptPolicySucceed", `PropagationPolicy "low" has taken it over from ClusterPropagationPolicy "wide"`)
	w.IsClaimed(web, "low")

	// One of an equal priority does not; when that of the other falls, it does.
	w.ChangeObject(low, func() { low.Spec.Priority = new(int32(5)) })
	equal := harness.Policy("equal", policyv1alpha1.Placement{})
	taking(&equal.Spec, 5)
	w.CreateAll(equal)
	w.ChangeObject(low, func() { low.Spec.Priority = new(int32(4)) })
	w.RunsOn("web", map[string]int32{"member1": 1, "member2": 1})
	w.NamespaceHasEvent(metav1.NamespaceDefault, "PreemptPolicySucceed", `PropagationPolicy "equal" has taken it over from PropagationPolicy "low"`)
	w.IsClaimed(web, "equal")
}
