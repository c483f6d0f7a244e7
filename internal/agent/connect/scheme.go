// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"errors"
	"fmt"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// HubScheme knows what agents use on the hub.
func HubScheme() (*runtime.Scheme, error) {
	return newScheme(certificatesv1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, workv1.AddToScheme,
		fleetv1alpha1.AddToScheme, configv1alpha1.AddToScheme)
}

// MemberScheme knows what agents use on the member and at home, besides what
// they only know by its metadata.
func MemberScheme() (*runtime.Scheme, error) {
	return newScheme(corev1.AddToScheme, coordinationv1.AddToScheme, clusterv1alpha1.AddToScheme, aboutv1alpha1.AddToScheme, workv1.AddToScheme)
}

func newScheme(add ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	var errs []error
	for _, a := range add {
		errs = append(errs, a(scheme))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering API types: %w", err)
	}
	return scheme, nil
}

// HubMapper knows the resources of HubScheme that agents use. It needs no
// discovery, and finds nothing else.
func HubMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	addKinds(mapper, certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, "CertificateSigningRequest")
	addKinds(mapper, coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	addKinds(mapper, clusterv1.GroupVersion, meta.RESTScopeRoot, "ManagedCluster")
	addKinds(mapper, workv1.GroupVersion, meta.RESTScopeNamespace, "ManifestWork")
	addKinds(mapper, fleetv1alpha1.GroupVersion, meta.RESTScopeRoot, "ClusterConnection")
	addKinds(mapper, configv1alpha1.GroupVersion, meta.RESTScopeRoot, "ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration")
	return mapper
}

// HomeMapper knows the resources that agents use at home.
func HomeMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	addKinds(mapper, corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Secret", "ConfigMap")
	addKinds(mapper, corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Namespace")
	addKinds(mapper, coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	return mapper
}

// MemberMapper knows what the agent always uses on the member, and discovers
// anything else when it is asked for, group by group.
func MemberMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	known := meta.NewDefaultRESTMapper(nil)
	addKinds(known, corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Namespace", "Node")
	addKinds(known, corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Secret", "ConfigMap", "Pod")
	addKinds(known, clusterv1alpha1.GroupVersion, meta.RESTScopeRoot, "ClusterClaim")
	addKinds(known, aboutv1alpha1.GroupVersion, meta.RESTScopeRoot, "ClusterProperty")
	addKinds(known, workv1.GroupVersion, meta.RESTScopeRoot, "AppliedManifestWork")
	discovered, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the mapper of kinds to resources: %w", err)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known, discovered}}, nil
}

func addKinds(mapper *meta.DefaultRESTMapper, gv schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
	for _, kind := range kinds {
		mapper.Add(gv.WithKind(kind), scope)
	}
}
