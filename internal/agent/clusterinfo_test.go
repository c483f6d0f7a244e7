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
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/joining"
)

// node makes a node with 4 CPUs, of which pods may use 3.
func (h hub) node(name string, ready corev1.ConditionStatus, cordoned bool) {
	h.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned, ProviderID: "metal:///" + name}}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "zone-of-" + name, corev1.LabelTopologyRegion: "eu"}
	expect.NoError(h.T, h.Client.Create(h.T.Context(), node))
	node.Status.Capacity = corev1.ResourceList{"example.com/cpu": resource.MustParse("4")}
	node.Status.Allocatable = corev1.ResourceList{"example.com/cpu": resource.MustParse("3")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	expect.NoError(h.T, h.Client.Status().Update(h.T.Context(), node))
}

func (h hub) awaitConnection(name, what string, holds func(*fleetv1alpha1.ClusterConnectionStatus) bool) *fleetv1alpha1.ClusterConnection {
	h.T.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	h.AwaitState(what, func() (string, bool) {
		expect.NoError(h.T, h.Client.Get(h.T.Context(), client.ObjectKey{Name: name}, connection))
		return fmt.Sprint(connection.Status), holds(&connection.Status)
	})
	return connection
}

func TestHubIsToldWhatTheClusterIsAndHas(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.node("ready", corev1.ConditionTrue, false)
	h.node("cordoned", corev1.ConditionTrue, true)
	h.node("broken", corev1.ConditionFalse, false)
	h.JoinCluster("tells", func(o *agent.PullAgentOptions) { o.DiscoverEvery = time.Hour }) // definitions are followed all the same
	// The agent gets along without a ClusterConnection, and uses one that comes.
	expect.NoError(t, h.Client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "tells"}}))
	cpu := func(list fleetv1alpha1.ResourceList) string {
		quantity := list["example.com/cpu"]
		return quantity.String()
	}
	connection := h.awaitConnection("tells", "the nodes and what they have", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return s.NodeSummary != nil && s.NodeSummary.TotalNum >= 3 && s.NodeSummary.ReadyNum == 2 && // another test has a node, too
			cpu(s.ResourceSummary.Capacity) == "12" && cpu(s.ResourceSummary.Allocatable) == "6"
	})
	system := &corev1.Namespace{}
	expect.NoError(t, h.Client.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	if connection.Status.ID != string(system.UID) || connection.Status.KubernetesVersion != h.ReadCluster("tells").Status.Version.Kubernetes {
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
	expect.NoError(t, h.Client.Create(t.Context(), definition))
	h.awaitConnection("tells", "a new kind", serves("tells.example.com/v1", "sails", "Sail"))
	// What the hub mirrors changes the generation, and conditions are about that.
	mirror := client.RawPatch("application/merge-patch+json", []byte(`{"cluster":{"uid":"uid"}}`))
	expect.NoError(t, h.Client.Patch(t.Context(), connection, mirror))
	generation := connection.Generation
	h.awaitConnection("tells", "conditions about the new generation", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return !slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.ObservedGeneration != generation })
	})
	// The identity is a claim, too, unless the cluster has one of that name, as
	// another test gives it.
	h.AwaitState("a claim that tells who the cluster is", func() (string, bool) {
		claims := h.ReadCluster("tells").Status.ClusterClaims
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

func TestClusterThatHasJoinedAlreadyIsToldSo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.JoinCluster("twin", nil)
	refuse := func() {
		h.PutRole(joining.AgentRole("twin", false))
		h.SetAccepted("twin", metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined)
	}
	refuse()
	expect.TextHas(t, h.AwaitReason("twin", operatorv1.JoinReasonClusterAlreadyJoined), "twin")
	h.AcceptCluster("twin")
	h.AwaitReason("twin", operatorv1.JoinReasonJoined)

	// It is told before the certificate, too.
	at := h.MakeHome("another")
	h.SetBootstrap("another", h.BootstrapConfig("bootstrap-another", "bootstrap"))
	h.RunAgent(at, nil)
	csr := h.AwaitRequest("another")
	h.SetAccepts("another", true)
	h.SetAccepted("another", metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined)
	h.AwaitReason("another", operatorv1.JoinReasonClusterAlreadyJoined)
	h.SignRequest(csr, -time.Minute, time.Hour)
	h.AcceptCluster("another")
	h.AwaitAvailable("another")
}
