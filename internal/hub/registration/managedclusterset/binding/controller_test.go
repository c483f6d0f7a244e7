// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

// hub returns a client of a hub whose bindings are found by their sets.
func hub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&clusterv1beta2.ManagedClusterSetBinding{}).
		WithIndex(&clusterv1beta2.ManagedClusterSetBinding{}, indexSet, indexBySet).Build()
}

func set(name string) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// bind returns the binding of a set, which has to have its name.
func bind(namespace, name string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 2},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: name},
	}
}

// docs/spec/cluster/managedclustersetbinding.md has the reasons.
func TestABindingSaysWhetherItsSetExists(t *testing.T) {
	said := bind("shop", "prod")
	said.Status.Conditions = []metav1.Condition{{Type: "Bound", Status: metav1.ConditionTrue, Reason: "ClusterSetBound", Message: "the ManagedClusterSet exists", ObservedGeneration: 1}}
	going := bind("shop", "prod")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	cases := map[string]struct {
		has  []client.Object
		want []string
	}{
		"it does":                         {[]client.Object{bind("shop", "prod"), set("prod")}, []string{"Bound True ClusterSetBound 2: the ManagedClusterSet exists"}},
		"it does not":                     {[]client.Object{bind("shop", "prod"), set("dev")}, []string{`Bound False ClusterSetNotFound 2: there is no ManagedClusterSet "prod"`}},
		"it does not any more":            {[]client.Object{said}, []string{`Bound False ClusterSetNotFound 2: there is no ManagedClusterSet "prod"`}},
		"nothing is said of what goes":    {[]client.Object{going, set("prod")}, nil},
		"nothing is said of what is gone": {[]client.Object{set("prod")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := hub(t, tc.has...)
			key := types.NamespacedName{Namespace: "shop", Name: "prod"}
			if _, err := NewClusterSetBindingController(c).Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			b := &clusterv1beta2.ManagedClusterSetBinding{}
			if err := c.Get(t.Context(), key, b); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			var got []string
			for _, is := range b.Status.Conditions {
				got = append(got, fmt.Sprintf("%s %s %s %d: %s", is.Type, is.Status, is.Reason, is.ObservedGeneration, is.Message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions, -want +got:\n%s", diff)
			}
		})
	}
}

func TestASetLeadsToItsBindings(t *testing.T) {
	c := NewClusterSetBindingController(hub(t, bind("shop", "prod"), bind("bank", "prod"), bind("shop", "dev")))
	of := func(namespace, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for name, want := range map[string][]reconcile.Request{
		"prod": {of("bank", "prod"), of("shop", "prod")},
		"dev":  {of("shop", "dev")},
		"none": {},
	} {
		if diff := cmp.Diff(want, c.bindingsOfSet(t.Context(), set(name))); diff != "" {
			t.Errorf("bindings of set %s, -want +got:\n%s", name, diff)
		}
	}
	if got := indexBySet(set("prod")); got != nil {
		t.Errorf("what is no binding is indexed as %v", got)
	}
}
