// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	err := errors.Join(
		authorizationv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), clusterv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme),
		fleetv1alpha1.AddToScheme(scheme), operatorv1.AddToScheme(scheme), workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme),
		appsv1alpha1.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	return scheme, nil
}

// newMapper knows the resources that the commands use. It needs no discovery,
// which would cost several requests before the first one that matters.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(version schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), scope)
		}
	}
	add(authorizationv1.SchemeGroupVersion, meta.RESTScopeRoot, "SelfSubjectAccessReview")
	add(certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, "CertificateSigningRequest")
	add(coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	add(appsv1alpha1.GroupVersion, meta.RESTScopeRoot, "WorkloadRebalancer")
	add(configv1alpha1.GroupVersion, meta.RESTScopeRoot, "ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration")
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Namespace")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Event", "Secret", "ConfigMap")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Role", "RoleBinding")
	add(apiextensionsv1.SchemeGroupVersion, meta.RESTScopeRoot, "CustomResourceDefinition")
	add(clusterv1.GroupVersion, meta.RESTScopeRoot, "ManagedCluster")
	add(clusterv1alpha1.GroupVersion, meta.RESTScopeNamespace, "AddOnPlacementScore")
	add(clusterv1beta1.GroupVersion, meta.RESTScopeNamespace, "Placement", "PlacementDecision")
	add(clusterv1beta2.GroupVersion, meta.RESTScopeRoot, "ManagedClusterSet")
	add(clusterv1beta2.GroupVersion, meta.RESTScopeNamespace, "ManagedClusterSetBinding")
	add(fleetv1alpha1.GroupVersion, meta.RESTScopeRoot, "ClusterConnection")
	add(operatorv1.GroupVersion, meta.RESTScopeRoot, "ClusterManager")
	add(workv1.GroupVersion, meta.RESTScopeNamespace, "ManifestWork")
	add(workv1alpha1.GroupVersion, meta.RESTScopeNamespace, "ManifestWorkReplicaSet")
	return mapper
}
