// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/test/upgrade/released"
)

// server is an API server and its clients, all of which refuse unknown fields.
type server struct {
	environment *envtest.Environment
	trees       dynamic.Interface // of any kind
	types       client.Client     // of our types
	scheme      *runtime.Scheme
}

func newServer(t *testing.T, environment *envtest.Environment, config *rest.Config) server {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(
		corev1.AddToScheme(scheme), aboutv1alpha1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), clusterv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme),
		fleetv1alpha1.AddToScheme(scheme), operatorv1.AddToScheme(scheme), workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme),
		appsv1alpha1.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme),
	)
	if err != nil {
		t.Fatal(err)
	}
	trees, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	types, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return server{environment, trees, client.WithFieldValidation(types, metav1.FieldValidationStrict), scheme}
}

// definition returns that of a resource in any version, or nil.
func (s server) definition(r released.Resource) *apiextensionsv1.CustomResourceDefinition {
	for _, definition := range s.environment.CRDs {
		if definition.Name == r.GroupResource().String() {
			return definition
		}
	}
	return nil
}

// serves reports whether the server has a resource in its version.
func (s server) serves(r released.Resource) bool {
	definition := s.definition(r)
	if definition == nil {
		return false
	}
	for _, served := range released.ServedIn(definition) {
		if served == r {
			return true
		}
	}
	return false
}

// hasStatus reports whether the status of a resource is written on its own.
func (s server) hasStatus(r released.Resource) bool {
	for _, version := range s.definition(r).Spec.Versions {
		if version.Name == r.Version {
			return version.Subresources != nil && version.Subresources.Status != nil
		}
	}
	return false
}

func (s server) client(r released.Resource, namespace string) dynamic.ResourceInterface {
	return s.trees.Resource(r.GroupVersionResource).Namespace(namespace)
}

// needsNamespace creates the namespace of an object that has one.
func (s server) needsNamespace(t *testing.T, namespace string) {
	t.Helper()
	if namespace == "" {
		return
	}
	err := s.types.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create namespace %s: %v", namespace, err)
	}
}

// typed returns an object as our type of it, which has to know all of its fields.
func (s server) typed(t *testing.T, object *unstructured.Unstructured) client.Object {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(s.scheme, serializer.EnableStrict).UniversalDeserializer()
	decoded, _, err := strict.Decode(content, nil, nil)
	if err != nil {
		t.Fatalf("our type does not read what is served: %v", err)
	}
	typed, ok := decoded.(client.Object)
	if !ok {
		t.Fatalf("%T is not the type of an object", decoded)
	}
	return typed
}
