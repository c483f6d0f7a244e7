// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// TryInTurn tries until nobody else has written meanwhile.
func (h *RegistrationHub) TryInTurn(t testing.TB, try func(context.Context) error) error {
	t.Helper()
	for {
		if err := try(t.Context()); err == nil || !strings.Contains(err.Error(), "the object has been modified") {
			return err
		}
	}
}

const (
	// OwnPrefix is the domain of what agents say in labels and annotations.
	OwnPrefix = "agent.open-cluster-management.io/"
	// OperatorNamespace is where the account is with which agents ask to join.
	OperatorNamespace = "open-cluster-management"
)

// InstallGuards installs the guards as the operator does, and waits until that of
// ManagedClusters is in force; the others come with it.
func (h *RegistrationHub) InstallGuards(t testing.TB) {
	t.Helper()
	if err := admissionv1.AddToScheme(h.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	hub := manifests.Hub{Name: "hub", OperatorNamespace: OperatorNamespace}
	for i, object := range slices.Concat(manifests.AgentGuards(hub), manifests.ConnectionGuard(hub)) {
		typed := []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}}[i%2]
		content, err := json.Marshal(object)
		if err == nil {
			err = json.Unmarshal(content, typed)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.CreateObjects(t, typed)
	}
	h.JoinWithLabels(t, "canary", nil)
	turn := 0
	h.Eventually(t, "the guard is in force", func(ctx context.Context) (bool, error) {
		turn++
		err := h.ChangeAs(ctx, t, h.AgentClient(t, "canary"), "canary", func(mc *clusterv1.ManagedCluster) {
			metav1.SetMetaDataLabel(&mc.ObjectMeta, "turn", fmt.Sprint(turn))
		})
		return apierrors.IsForbidden(err), nil
	})
}

// JoinWithLabels makes a cluster that is accepted and has an agent with its rights.
func (h *RegistrationHub) JoinWithLabels(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	mc := NewCluster(name, true)
	mc.Labels = labels
	mc.Spec.Taints = []clusterv1.Taint{{Key: "keep-out", Effect: clusterv1.TaintEffectNoSelect}}
	h.CreateObjects(t, mc)
	h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.HasRights(t, name, "one", true)
}

// ChangeAs changes a cluster as somebody; what the controllers write meanwhile does not
// matter.
func (h *RegistrationHub) ChangeAs(ctx context.Context, t testing.TB, as client.Client, name string, change func(*clusterv1.ManagedCluster)) error {
	t.Helper()
	for {
		mc := h.ReadClusterIn(ctx, t, name)
		change(mc)
		if err := as.Update(ctx, mc); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// ReadClusterIn is ReadCluster with a context of its own.
func (h *RegistrationHub) ReadClusterIn(ctx context.Context, t testing.TB, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

// AllowLabels leaves labels to the agent of a cluster, nil those that are the default of this
// hub, and waits until that holds.
func (h *RegistrationHub) AllowLabels(t testing.TB, name string, allowed agentlabels.AllowedKeys) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"agentLabels": allowed}})
	if err != nil {
		t.Fatal(err)
	}
	h.ReadConnection(t.Context(), t, name)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := h.Client.Patch(t.Context(), connection, client.RawPatch("application/merge-patch+json", text)); err != nil {
		t.Fatal(err)
	}
	if allowed == nil {
		allowed = agentlabels.AllowedKeys{"env"}
	}
	h.IsLimited(t, name, allowed.String())
}

// IsLimited waits until the hub has noted what the agent may change.
func (h *RegistrationHub) IsLimited(t testing.TB, name, want string) {
	t.Helper()
	h.Eventually(t, fmt.Sprintf("the agent of %s may change %q", name, want), func(ctx context.Context) (bool, error) {
		got, noted := h.ReadClusterIn(ctx, t, name).Annotations[fleetv1alpha1.AnnotationAgentLabels]
		return noted && got == want, nil
	})
}

// RefusedWith requires a refusal that says why, which no other bound of the API server
// is.
func RefusedWith(t testing.TB, what string, err error, why string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: the API server says %v, want a refusal with %q", what, err, why)
	}
}

// RefusedInTurn tries until nobody else has written meanwhile.
func (h *RegistrationHub) RefusedInTurn(t testing.TB, what string, try func(context.Context) error, why string) {
	t.Helper()
	err := try(t.Context())
	for apierrors.IsConflict(err) {
		err = try(t.Context())
	}
	RefusedWith(t, what, err, why)
}
