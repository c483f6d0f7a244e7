// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientevents "k8s.io/client-go/tools/events"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// TestFewSelectorsAreNamed is about a policy with many kinds that nobody serves.
func TestFewSelectorsAreNamed(t *testing.T) {
	k := &kindReporter{mapper: meta.NewDefaultRESTMapper(nil)}
	var selectors []policyv1alpha1.ResourceSelector
	for i := range 256 {
		selectors = append(selectors, policyv1alpha1.ResourceSelector{APIVersion: "e/v1", Kind: fmt.Sprintf("K%d", i)})
	}
	const want = "spec.resourceSelectors[9]: the hub has no kind K9 in e/v1; and so in 246 more selectors: install its definition"
	if got := k.missingKinds(selectors); !strings.Contains(got, want) || len(got) > events.NoteBytesMax {
		t.Errorf("it says %d bytes: %s", len(got), got)
	}
}

// TestKindsThatAreNotServed has the same policy looked at again and again, while
// the definition that it needs comes and goes.
func TestKindsThatAreNotServed(t *testing.T) {
	recorder := clientevents.NewFakeRecorder(10)
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	more := meta.NewDefaultRESTMapper(nil)
	more.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	more.Add(schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Gadget"}, meta.RESTScopeNamespace)
	k := &kindReporter{mapper: served, events: events.NewRecorder(recorder), said: map[types.NamespacedName]map[string]notice{}}
	p := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gadgets", UID: "1"},
		Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
			{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "example.io/v1", Kind: "Gadget"},
		}},
	}
	told := func(want int, when string) {
		t.Helper()
		if got := len(recorder.Events); got != want {
			t.Fatalf("%s: there are %d events, want %d", when, got, want)
		}
		for range want {
			const part = "Warning KindNotServed spec.resourceSelectors[1]: the hub has no kind Gadget in example.io/v1: install its definition"
			if event := <-recorder.Events; !strings.HasPrefix(event, part) {
				t.Errorf("%s: the event is %q, want %q", when, event, part)
			}
		}
	}
	k.reportKinds(p)
	told(1, "the kind is missing")
	k.reportKinds(p)
	told(0, "it is missing still")
	k.mapper = more
	k.reportKinds(p)
	told(0, "it has come")
	k.mapper = served
	k.reportKinds(p)
	told(1, "it has gone again")
	p.UID = "2"
	k.reportKinds(p)
	told(1, "it is another policy of the name")
	k.forgetPolicy(types.NamespacedName{Namespace: "shop", Name: "gadgets"})
	if len(k.said) != 0 {
		t.Errorf("of a policy that is gone, %v is remembered", k.said)
	}
}

// TestKindsThatNeedAClusterPropagationPolicy has a policy that selects kinds without a namespace.
func TestKindsThatNeedAClusterPropagationPolicy(t *testing.T) {
	recorder, mapper := clientevents.NewFakeRecorder(10), meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Gadget"}, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	k := &kindReporter{mapper: mapper, events: events.NewRecorder(recorder), said: map[types.NamespacedName]map[string]notice{}}
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "1"}}
	const needs = ": a PropagationPolicy sends only what is in its namespace, so this needs a ClusterPropagationPolicy"
	for _, test := range []struct {
		selects []string // apiVersion and kind
		want    string
	}{
		{[]string{"v1 ConfigMap", "v1 Namespace"}, "Warning KindClusterScoped spec.resourceSelectors[1]: a Namespace is in no namespace" + needs},
		{[]string{"v1 ConfigMap", "v1 Namespace"}, ""}, // it was said
		{[]string{"v1 ConfigMap"}, ""},
		{[]string{"v1 Namespace"}, "Warning KindClusterScoped spec.resourceSelectors[0]: a Namespace is in no namespace" + needs},
		{
			[]string{"rbac.authorization.k8s.io/v1 ClusterRole", "example.io/v1 Gadget"},
			"Warning KindClusterScoped spec.resourceSelectors[0]: a ClusterRole is in no namespace; spec.resourceSelectors[1]: a Gadget is in no namespace" + needs,
		},
		{[]string{"operator.open-cluster-management.io/v1 ClusterManager"}, ""}, // it is never sent, and admission has said so
	} {
		p.Spec.ResourceSelectors = nil
		for _, one := range test.selects {
			version, kind, _ := strings.Cut(one, " ")
			p.Spec.ResourceSelectors = append(p.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: version, Kind: kind})
		}
		k.reportKinds(p)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if got != test.want {
			t.Errorf("%q: the event is %q, want %q", test.selects, got, test.want)
		}
	}
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: p.Spec}
	wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}}
	if k.reportKinds(wide); len(recorder.Events) > 0 {
		t.Errorf("of a ClusterPropagationPolicy it says %q", <-recorder.Events)
	}
}
