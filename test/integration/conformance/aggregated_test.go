// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	// aggregatedProgram is the executable of the aggregated API server, and
	// aggregatedService the name of its Deployment and of its Service.
	aggregatedProgram = "capstan-apiserver"
	aggregatedService = "cluster-manager-apiserver"
	// aggregatedHost is the name that the hub's API server knows it by.
	aggregatedHost = aggregatedService + "." + operatorv1.DefaultHubNamespace + ".svc"
)

// serverOf returns where requests reach a component; nil for none.
func serverOf(c manifests.HubComponent) *manifests.ComponentServer {
	if c.Webhook != nil {
		return c.Webhook
	}
	return c.APIServer
}

// aggregate leads from the hub's API server to the aggregated one at the port, by a
// Service that is another name, as on a hub whose pods run elsewhere.
func (h *hub) aggregate(t testing.TB, m manifests.Hub, port int) {
	t.Helper()
	eventually(t, "the aggregated API server is well", func() error { return probe(t, port) })
	objects := []render.Object{corev1ac.Service(aggregatedService, m.Namespace()).
		WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeExternalName).WithExternalName("localhost"))}
	for _, service := range manifests.APIServices(m) {
		u, err := render.ToUnstructured(service)
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(u.Object, int64(port), "spec", "service", "port"); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, client.ApplyConfigurationFromUnstructured(u))
	}
	if _, err := render.NewApplier(h.client, h.client, fieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hub serves the Cluster API", func() error {
		return h.client.List(t.Context(), &karmadav1alpha1.ClusterList{})
	})
}
