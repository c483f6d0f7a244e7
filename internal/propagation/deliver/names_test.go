// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestWorksHaveTheNamesThatClientsCompute has the names that Karmada's clients look
// for. That of the Deployment is in its documentation; the others were computed
// apart from WorkName.
func TestWorksHaveTheNamesThatClientsCompute(t *testing.T) {
	for name, test := range map[string]struct{ kind, namespace, name, want string }{
		"of a namespace":   {"Deployment", "default", "nginx", "nginx-687f7fb96f"},
		"of the hub":       {"ClusterRole", "", "viewer", "viewer-d7c44f56"},
		"of a role":        {"ClusterRole", "", "system:Viewer", "system.viewer-68f59547f"},
		"of a longer name": {"ConfigMap", "shop", strings.Repeat("n", 253), strings.Repeat("n", 177) + "-79875fc45f"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WorkName(test.kind, test.namespace, test.name); got != test.want {
				t.Errorf("the works are called %q, want %q", got, test.want)
			}
		})
	}
}

// TestWorksHaveTheNameOfTheirObject has two kinds called Deployment: the binding of
// the second has the group in its name. The hashes were computed apart from WorkName.
func TestWorksHaveTheNameOfTheirObject(t *testing.T) {
	for name, test := range map[string]struct {
		binding string
		of      workv1alpha2.ObjectReference
		want    string
	}{
		"of a namespace": {
			"nginx-deployment", workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "nginx"}, "nginx-687f7fb96f",
		},
		"of the hub": {"viewer-clusterrole", workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "viewer"}, "viewer-d7c44f56"},
		"the second of the name": {
			"nginx-deployment.example.com",
			workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Deployment", Namespace: "default", Name: "nginx"},
			"nginx-55bd9d9c6b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{Resource: test.of}}
			b.Name = test.binding
			if got := NameOfWorks(b); got != test.want {
				t.Errorf("the works are called %q, want %q", got, test.want)
			}
		})
	}
}

// TestABindingHasNoWorksOfAnotherNamespace has two objects whose works have the same name:
// the names of namespaces and kinds run into one another, and a hash can be ground.
func TestABindingHasNoWorksOfAnotherNamespace(t *testing.T) {
	theirs, forged := bindingFor("Deployment", "shop-web", "web"), bindingFor("Web-Deployment", "shop", "web")
	if NameOfWorks(theirs) != NameOfWorks(forged) {
		t.Fatalf("the works are called %q and %q, which is no attack", NameOfWorks(theirs), NameOfWorks(forged))
	}
	for what, test := range map[string]struct {
		work           *workv1.ManifestWork
		theirs, forged WorkOwnership
	}{
		"of their binding":              {workOf(theirs, theirs), Own, Others},
		"of the other binding":          {workOf(forged, forged), Others, Own},
		"a member took the names off":   {unmarked(workOf(theirs, theirs)), Own, Others},
		"a member wrote other names":    {workOf(forged, theirs), Own, Own},
		"a member wrote something else": {workOf(theirs, nil), Own, Others},
		"a member took all away":        {unmarked(workOf(theirs, nil)), Others, Others},
		"of an earlier object":          {workOf(theirs, earlier(theirs)), Earlier, Others},
		"of one without its marks":      {unmarked(workOf(theirs, earlier(theirs))), Others, Others},
	} {
		if mine, forgeds := OwnershipOfWork(theirs, test.work), OwnershipOfWork(forged, test.work); mine != test.theirs || forgeds != test.forged {
			t.Errorf("%s: for theirs it is %d, want %d; for the forged one %d, want %d", what, mine, test.theirs, forgeds, test.forged)
		}
	}
}

// TestABindingHasNoWorksOfANamespace sends a namespace by a policy that goes where objects
// in it go, too. A label of a member does not make a work one of a namespace.
func TestABindingHasNoWorksOfANamespace(t *testing.T) {
	b := &workv1alpha2.ClusterResourceBinding{}
	b.Name, b.Spec.Resource = "shop-namespace", workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop", UID: "uid"}
	for what, test := range map[string]struct {
		label string
		want  WorkOwnership
	}{"of the namespace": {"shop", Others}, "of another one": {"other", Own}, "of none": {"", Own}} {
		work := workOf(b, b)
		work.Labels[LabelNamespace] = test.label
		if got := OwnershipOfWork(b, work); got != test.want {
			t.Errorf("%s: it is %d, want %d", what, got, test.want)
		}
	}
}

// TestWorksOfTwoKindsOfAName has two kinds called Deployment: each binding may have works
// under the name that the other gives its own.
func TestWorksOfTwoKindsOfAName(t *testing.T) {
	first, second := bindingFor("Deployment", "shop", "web"), bindingFor("Deployment", "shop", "web")
	second.Name, second.Spec.Resource.APIVersion, second.Spec.Resource.UID = "web-deployment.example.com", "example.com/v1", "another"
	if names := NamesOfWorks(second); !slices.Contains(names, NameOfWorks(first)) || !slices.Contains(names, NameOfWorks(second)) {
		t.Fatalf("the works of the second are called %q", names)
	}
	work := workOf(first, first)
	if !WorkClaimsBinding(first, work) || WorkClaimsBinding(second, work) || OwnershipOfWork(second, work) != Others {
		t.Error("the second has the works of the first")
	}
	elsewhere := bindingFor("Deployment", "shop", "web")
	elsewhere.Namespace = "tenant"
	if names := NamesOfWorks(elsewhere); len(names) > 0 {
		t.Errorf("the binding of an object of another namespace has works %q", names)
	}
}

// bindingFor returns the binding of an object of group apps.
func bindingFor(kind, namespace, name string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace, b.Name = namespace, strings.ToLower(name+"-"+kind)
	b.Labels = map[string]string{workv1alpha2.LabelResourceBindingID: "id of " + kind}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: kind, Namespace: namespace, Name: name, UID: types.UID("uid of " + kind)}
	return b
}

// earlier returns the binding of an object that had the kind and the name.
func earlier(b *workv1alpha2.ResourceBinding) *workv1alpha2.ResourceBinding {
	before := b.DeepCopy()
	before.Spec.Resource.UID = "earlier"
	return before
}

// workOf returns a work that says it is of a binding, and is made of the object of another
// one, or of nothing that it says.
func workOf(says, made workv1alpha2.Binding) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "member1", Name: NameOfWorks(says), Labels: map[string]string{idLabel(says): PermanentBindingID(says)},
	}}
	work.Annotations = map[string]string{
		workv1alpha2.AnnotationResourceBindingNamespace: says.GetNamespace(), workv1alpha2.AnnotationResourceBindingName: says.GetName(),
	}
	if says.GetNamespace() == "" {
		work.Annotations = map[string]string{workv1alpha2.AnnotationClusterResourceBindingName: says.GetName()}
	}
	raw := []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"web"}}`)
	if made != nil {
		of := made.BindingSpec().Resource
		raw = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"annotations":{%q:%q}}}`,
			of.APIVersion, of.Kind, of.Namespace, of.Name, workv1alpha2.AnnotationTemplateUID, of.UID)
	}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return work
}

// unmarked takes off what a work says of itself.
func unmarked(work *workv1.ManifestWork) *workv1.ManifestWork {
	work.Labels, work.Annotations = nil, nil
	return work
}
