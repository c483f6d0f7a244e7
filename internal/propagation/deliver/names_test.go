// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	named := func(namespace, name string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: WorkName("Deployment", "shop-web", "web"),
			Annotations: map[string]string{workv1alpha2.AnnotationResourceBindingNamespace: namespace, workv1alpha2.AnnotationResourceBindingName: name},
		}}
	}
	theirs, forged := &workv1alpha2.ResourceBinding{}, &workv1alpha2.ResourceBinding{}
	theirs.Namespace, theirs.Name = "shop-web", "web-deployment"
	theirs.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop-web", Name: "web"}
	forged.Namespace, forged.Name = "shop", "web-web-deployment"
	forged.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Web-Deployment", Namespace: "shop", Name: "web"}
	if NameOfWorks(theirs) != NameOfWorks(forged) {
		t.Fatalf("the works are called %q and %q, which is no attack", NameOfWorks(theirs), NameOfWorks(forged))
	}
	for what, test := range map[string]struct {
		work           *workv1.ManifestWork
		theirs, forged bool
	}{
		"of their binding":              {named("shop-web", "web-deployment"), true, false},
		"of one of their other name":    {named("shop-web", "web-deployment.apps"), true, false},
		"of the other binding":          {named("shop", "web-web-deployment"), false, true},
		"of one without a namespace":    {named("", "web-deployment"), false, false},
		"a member took the names off":   {named("", ""), true, true}, // by its ID it is found all the same
		"a member wrote something else": {named("nowhere", "web"), false, false},
	} {
		if mine, forgeds := MayHave(theirs, test.work), MayHave(forged, test.work); mine != test.theirs || forgeds != test.forged {
			t.Errorf("%s: it may be of theirs: %t, want %t; of the forged one: %t, want %t", what, mine, test.theirs, forgeds, test.forged)
		}
	}
}
