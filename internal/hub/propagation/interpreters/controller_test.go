// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// says makes a customization say something else of a kind.
func says(t *testing.T, hub client.Client, name, kind, script string) {
	t.Helper()
	c := &configv1alpha1.ResourceInterpreterCustomization{}
	c.Name = name
	_ = hub.Delete(t.Context(), c)
	c = &configv1alpha1.ResourceInterpreterCustomization{}
	c.Name = name
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: kind}
	c.Spec.Customizations.ReplicaResource = &configv1alpha1.LuaRule{LuaScript: script}
	if err := hub.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// TestBindingsAreToldOfEachChange lets the list of bindings fail, once one of each kind.
func TestBindingsAreToldOfEachChange(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	thing, other := &workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}
	thing.Namespace, thing.Name = "shop", "thing"
	thing.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Thing"}
	other.Name = "other"
	other.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Other"}
	var broken client.ObjectList
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(thing, other).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			_, some := list.(*workv1alpha2.ResourceBindingList)
			_, all := list.(*workv1alpha2.ClusterResourceBindingList)
			switch broken.(type) {
			case *workv1alpha2.ResourceBindingList:
				if some {
					return errors.New("it does not answer")
				}
			case *workv1alpha2.ClusterResourceBindingList:
				if all {
					return errors.New("it does not answer")
				}
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	var told []string
	c := NewInterpreterController(hub, NewKnownInterpreters(hub, hub, clock.RealClock{}, dial.AddressGuard{}), templates.NewTemplates(templates.TemplateOptions{}), ChangeListeners{
		Binding: func(b types.NamespacedName) { told = append(told, b.String()) },
	})
	reconcile := func(fails bool, want ...string) {
		t.Helper()
		told = nil
		if _, err := c.Reconcile(t.Context(), ctrl.Request{}); (err != nil) != fails {
			t.Errorf("got %v; want an error: %t", err, fails)
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	}
	reconcile(false)
	says(t, hub, "thing", "Thing", "function GetReplicas(o) return 1 end")
	broken = &workv1alpha2.ResourceBindingList{}
	reconcile(true)
	reconcile(true)
	broken = nil
	reconcile(false, "shop/thing")
	reconcile(false)

	// What changed meanwhile counts, too, also if it is as before in the end.
	says(t, hub, "thing", "Thing", "function GetReplicas(o) return 2 end")
	broken = &workv1alpha2.ClusterResourceBindingList{}
	reconcile(true)
	says(t, hub, "thing", "Thing", "function GetReplicas(o) return 1 end")
	says(t, hub, "other", "Other", "function GetReplicas(o) return 1 end")
	reconcile(true)
	broken = nil
	reconcile(false, "shop/thing", "/other")
	reconcile(false)
}
