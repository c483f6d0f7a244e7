// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// FieldOwner is the owner of the fields that capstan applies.
const FieldOwner = "capstan"

// NewClient returns a client for the kinds that an installation has to do with.
// It needs no discovery, so it knows a kind that is only being installed.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	err := errors.Join(
		corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme), operatorv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme),
		fleetv1alpha1.AddToScheme(scheme), storagev1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(version schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), scope)
		}
	}
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Namespace", "Node")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "ServiceAccount", "Secret", "ConfigMap", "Service", "PersistentVolumeClaim", "Pod", "Event")
	add(appsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Deployment")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeRoot, "ClusterRole", "ClusterRoleBinding")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Role", "RoleBinding")
	add(apiextensionsv1.SchemeGroupVersion, meta.RESTScopeRoot, "CustomResourceDefinition")
	add(admissionv1.SchemeGroupVersion, meta.RESTScopeRoot, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	add(operatorv1.GroupVersion, meta.RESTScopeRoot, "ClusterManager", "Klusterlet")
	add(fleetv1alpha1.GroupVersion, meta.RESTScopeNamespace, "ControlPlane")
	add(storagev1.SchemeGroupVersion, meta.RESTScopeRoot, "StorageClass")
	add(clusterv1.GroupVersion, meta.RESTScopeRoot, "ManagedCluster")
	add(authorizationv1.SchemeGroupVersion, meta.RESTScopeRoot, "SelfSubjectAccessReview")
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", config.Host, err)
	}
	return c, nil
}

// ApplyObjects writes the objects in order by server-side apply. It takes over fields
// that others have set to other values; what it does not set stays.
func ApplyObjects(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		// The answer of the server goes into what is sent.
		sent := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		if err := c.Apply(ctx, sent, client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("install %s: %w", describeObject(object), err)
		}
	}
	return nil
}

// describeObject names an object for people.
func describeObject(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if object.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kind, object.GetName())
	}
	return fmt.Sprintf("%s %q", kind, client.ObjectKeyFromObject(object))
}
