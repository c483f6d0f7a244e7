// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent"
)

// node makes a node with 4 CPUs, of which pods may use 3.
func (h *hub) node(name string, ready corev1.ConditionStatus, cordoned bool) {
	h.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned, ProviderID: "metal:///" + name}}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "zone-of-" + name, corev1.LabelTopologyRegion: "eu"}
	must(h.t, h.client.Create(h.t.Context(), node))
	node.Status.Capacity = corev1.ResourceList{"example.com/cpu": resource.MustParse("4")}
	node.Status.Allocatable = corev1.ResourceList{"example.com/cpu": resource.MustParse("3")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	must(h.t, h.client.Status().Update(h.t.Context(), node))
}

func (h *hub) awaitConnection(name, what string, holds func(*fleetv1alpha1.ClusterConnectionStatus) bool) *fleetv1alpha1.ClusterConnection {
	h.t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	h.await(what, func() (string, bool) {
		must(h.t, h.client.Get(h.t.Context(), client.ObjectKey{Name: name}, connection))
		return fmt.Sprint(connection.Status), holds(&connection.Status)
	})
	return connection
}

func tellsWhatItHas(t *testing.T, h *hub) {
	h.node("ready", corev1.ConditionTrue, false)
	h.node("cordoned", corev1.ConditionTrue, true)
	h.node("broken", corev1.ConditionFalse, false)
	h.joined("tells", func(o *agent.PullAgentOptions) { o.DiscoverEvery = time.Hour }) // definitions are followed all the same
	// The agent gets along without a ClusterConnection, and uses one that comes.
	must(t, h.client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "tells"}}))
	cpu := func(list fleetv1alpha1.ResourceList) string {
		quantity := list["example.com/cpu"]
		return quantity.String()
	}
	connection := h.awaitConnection("tells", "the nodes and what they have", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return s.NodeSummary != nil && s.NodeSummary.TotalNum >= 3 && s.NodeSummary.ReadyNum == 2 && // another test has a node, too
			cpu(s.ResourceSummary.Capacity) == "12" && cpu(s.ResourceSummary.Allocatable) == "6"
	})
	system := &corev1.Namespace{}
	must(t, h.client.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	if connection.Status.ID != string(system.UID) || connection.Status.KubernetesVersion != h.cluster("tells").Status.Version.Kubernetes {
		t.Errorf("id %q and version %q are told", connection.Status.ID, connection.Status.KubernetesVersion)
	}
	checkPlace(t, &connection.Status)
	serves := func(groupVersion, name, kind string) func(*fleetv1alpha1.ClusterConnectionStatus) bool {
		return func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
			return slices.ContainsFunc(s.APIEnablements, func(e fleetv1alpha1.APIEnablement) bool {
				return e.GroupVersion == groupVersion && slices.Contains(e.Resources, fleetv1alpha1.APIResource{Name: name, Kind: kind})
			})
		}
	}
	if !serves("v1", "pods", "Pod")(&connection.Status) || !serves("apps/v1", "deployments", "Deployment")(&connection.Status) ||
		!meta.IsStatusConditionTrue(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements) {
		t.Errorf("pods and deployments are missing in %+v, or the list is not complete: %v", connection.Status.APIEnablements, connection.Status.Conditions)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "sails.tells.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "tells.example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "sails", Kind: "Sail"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	must(t, h.client.Create(t.Context(), definition))
	h.awaitConnection("tells", "a new kind", serves("tells.example.com/v1", "sails", "Sail"))
	// What the hub mirrors changes the generation, and conditions are about that.
	mirror := client.RawPatch("application/merge-patch+json", []byte(`{"cluster":{"uid":"uid"}}`))
	must(t, h.client.Patch(t.Context(), connection, mirror))
	generation := connection.Generation
	h.awaitConnection("tells", "conditions about the new generation", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return !slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.ObservedGeneration != generation })
	})
	// The identity is a claim, too, unless the cluster has one of that name, as
	// another test gives it.
	h.await("a claim that tells who the cluster is", func() (string, bool) {
		claims := h.cluster("tells").Status.ClusterClaims
		return fmt.Sprint(claims), slices.ContainsFunc(claims, func(c clusterv1.ManagedClusterClaim) bool {
			return c.Name == "id.k8s.io" && (c.Value == string(system.UID) || c.Value == "me")
		})
	})
}

// checkPlace checks where the nodes of the test are.
func checkPlace(t *testing.T, s *fleetv1alpha1.ClusterConnectionStatus) {
	t.Helper()
	if s.Region != "eu" || s.Provider != "metal" || fmt.Sprint(s.Zones) != "[zone-of-broken zone-of-cordoned zone-of-ready]" {
		t.Errorf("the cluster is told to be in region %q, zones %v, of %q", s.Region, s.Zones, s.Provider)
	}
}

func tellsOfAnotherName(t *testing.T, h *hub) {
	h.joined("twin", nil)
	refuse := func() {
		h.put(clusterRole("twin", false))
		h.setAccepted("twin", metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined)
	}
	refuse()
	contains(t, h.awaitReason("twin", operatorv1.JoinReasonClusterAlreadyJoined), "twin")
	h.accept("twin")
	h.awaitReason("twin", operatorv1.JoinReasonJoined)

	// It is told before the certificate, too.
	at := h.home("another")
	h.setBootstrap("another", h.bootstrap("bootstrap-another", "bootstrap"))
	h.run(at, nil)
	csr := h.awaitCSR("another")
	h.setAccepts("another", true)
	h.setAccepted("another", metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined)
	h.awaitReason("another", operatorv1.JoinReasonClusterAlreadyJoined)
	h.sign(csr, -time.Minute, time.Hour)
	h.accept("another")
	h.awaitAvailable("another")
}
