// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

func key(group, version, namespace string) templates.Key {
	return templates.Key{
		Kind: schema.GroupVersionKind{Group: group, Version: version, Kind: "Thing"},
		Name: types.NamespacedName{Namespace: namespace, Name: "a"},
	}
}

// binding is one of a name, for the object of a key with a UID.
func binding(name string, of templates.Key, uid types.UID) Binding {
	b := emptyBinding(of, name)
	apiVersion, kind := of.Kind.ToAPIVersionAndKind()
	b.BindingSpec().Resource = workv1alpha2.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: of.Name.Namespace, Name: of.Name.Name, UID: uid,
	}
	return b
}

func TestFind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mine, other := key("one.example.com", "v1", "shop"), key("two.example.com", "v1", "shop")
	wide := key("one.example.com", "v1", "")
	for name, c := range map[string]struct {
		of       templates.Key
		bindings []client.Object
		want     []string // the names of those that are found
		next     string   // the name of a new one
	}{
		"none":                        {of: mine, next: "a-thing"},
		"the usual":                   {of: mine, bindings: []client.Object{binding("a-thing", mine, "1")}, want: []string{"a-thing"}, next: "a-thing"},
		"of another version":          {of: key("one.example.com", "v2", "shop"), bindings: []client.Object{binding("a-thing", mine, "1")}, want: []string{"a-thing"}, next: "a-thing"},
		"the name is another group's": {of: mine, bindings: []client.Object{binding("a-thing", other, "1")}, next: "a-thing.one.example.com"},
		"it has the longer name": {
			of: mine, bindings: []client.Object{binding("a-thing", other, "1"), binding("a-thing.one.example.com", mine, "2")},
			want: []string{"a-thing.one.example.com"}, next: "a-thing.one.example.com",
		},
		"both are its own": {
			of: mine, bindings: []client.Object{binding("a-thing", mine, "1"), binding("a-thing.one.example.com", mine, "2")},
			want: []string{"a-thing", "a-thing.one.example.com"}, next: "a-thing",
		},
		"of an object in no namespace": {of: wide, bindings: []client.Object{binding("a-thing", wide, "1"), binding("a-thing", mine, "2")}, want: []string{"a-thing"}, next: "a-thing"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := FindBindings(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.bindings...).Build(), c.of)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, b := range found.Own {
				names = append(names, b.GetName())
				if b.GetNamespace() != c.of.Name.Namespace {
					t.Errorf("found one of namespace %q", b.GetNamespace())
				}
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("found %q, want %q", names, c.want)
			}
			if next := found.NewBinding(c.of); next.GetName() != c.next || next.GetNamespace() != c.of.Name.Namespace {
				t.Errorf("a new one is %s/%s, want %s", next.GetNamespace(), next.GetName(), c.next)
			}
		})
	}
	broken := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no cache")
		},
	}).Build()
	if _, err := FindBindings(t.Context(), broken, mine); err == nil || !strings.Contains(err.Error(), `Thing "shop/a"`) {
		t.Errorf("got %v, want an error that names the object", err)
	}
}

func TestOfAndExcept(t *testing.T) {
	mine := key("one.example.com", "v1", "shop")
	found := ObjectBindings{Own: []Binding{binding("a-thing", mine, "1"), binding("a-thing.one.example.com", mine, "2")}}
	if b := found.OfObject("2"); b == nil || b.GetName() != "a-thing.one.example.com" {
		t.Errorf("of UID 2 there is %v", b)
	}
	if b := found.OfObject("3"); b != nil {
		t.Errorf("of UID 3 there is %v", b)
	}
	if earlier := found.ExceptObject("2"); len(earlier) != 1 || earlier[0].GetName() != "a-thing" {
		t.Errorf("except for UID 2 there are %v", earlier)
	}
}

// TestTheIDStays makes the binding of an object anew: the clusters know by the ID that it
// is for the same one.
func TestTheIDStays(t *testing.T) {
	id := func(uid types.UID) string { return PermanentBindingID(&metav1.ObjectMeta{UID: uid}) }
	first, again, other := id("1"), id("1"), id("2")
	if first != again || first == other || len(first) != 36 {
		t.Errorf("the IDs of UID 1 are %s and %s, that of UID 2 is %s", first, again, other)
	}
}
