// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// objects is how many ConfigMaps of namespace default have a binding: even ones are
// labelled.
const objects = 40

// overriding returns a controller that knows the ConfigMaps and their bindings.
func overriding(t *testing.T) *BindingController {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metav1.AddMetaToScheme, corev1.AddToScheme, workv1alpha2.AddToScheme, policyv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	var bindings []client.Object
	var metadata []runtime.Object
	for i := range objects {
		name := fmt.Sprintf("c%d", i)
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name + "-configmap"}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: metav1.NamespaceDefault, Name: name}
		bindings = append(bindings, b)
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		object.SetGroupVersionKind(kind)
		if i%2 == 0 {
			object.Labels = map[string]string{"even": "yes"}
		}
		metadata = append(metadata, object)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	listed := make(chan struct{}, objects)
	watched := templates.NewTemplates(templates.TemplateOptions{
		Client: metadatafake.NewSimpleMetadataClient(scheme, metadata...), Mapper: mapper, Clock: clock.RealClock{},
		Changed: func(templates.Key) { listed <- struct{}{} },
	})
	watched.UseKinds("a policy", kind)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watched.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for range objects {
		<-listed
	}
	return NewBindingController(BindingControllerDeps{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(bindings...).Build(), Templates: watched})
}

// TestAnOverridePolicyTouchesWhatItIsAbout counts the bindings that are looked at
// when an override policy has changed.
func TestAnOverridePolicyTouchesWhatItIsAbout(t *testing.T) {
	c := overriding(t)
	configMaps := policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap"}
	named, labelled, elsewhere, wrong := configMaps, configMaps, configMaps, configMaps
	named.Name = "c7"
	labelled.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"even": "yes"}}
	elsewhere.Namespace = "elsewhere"
	wrong.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "even", Operator: "Maybe"}}}
	deployments := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
	for name, test := range map[string]struct {
		namespace string
		selectors []policyv1alpha1.ResourceSelector
		want      int
	}{
		"one by name":                     {metav1.NamespaceDefault, []policyv1alpha1.ResourceSelector{named}, 1},
		"those with a label":              {"", []policyv1alpha1.ResourceSelector{labelled}, objects / 2},
		"those of a kind":                 {metav1.NamespaceDefault, []policyv1alpha1.ResourceSelector{configMaps}, objects},
		"everything in reach":             {metav1.NamespaceDefault, nil, objects},
		"everything elsewhere":            {"elsewhere", nil, 0},
		"a kind that nobody sends":        {"", []policyv1alpha1.ResourceSelector{deployments}, 0},
		"another namespace":               {"", []policyv1alpha1.ResourceSelector{elsewhere}, 0},
		"a mistake holds everything back": {"", []policyv1alpha1.ResourceSelector{wrong, deployments}, objects},
	} {
		t.Run(name, func(t *testing.T) {
			var policy client.Object = &policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: test.selectors}}
			if test.namespace != "" {
				policy = &policyv1alpha1.OverridePolicy{
					ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace}, Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: test.selectors},
				}
			}
			names, err := c.overriddenBindings(t.Context(), policy)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
			if names = slices.Compact(names); len(names) != test.want {
				t.Errorf("%d bindings are looked at, want %d: %v", len(names), test.want, names)
			}
		})
	}
}
