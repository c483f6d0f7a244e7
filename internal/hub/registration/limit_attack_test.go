// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	ownPrefix = "agent.open-cluster-management.io/"
	// operatorNamespace is where the account is with which agents ask to join.
	operatorNamespace = "open-cluster-management"
)

// TestAMemberDoesNotChooseWhatItIsSent attacks with the credential of a joined agent: it
// changes what an administrator says of its cluster, and so what policies, placements and
// cluster sets send there.
func TestAMemberDoesNotChooseWhatItIsSent(t *testing.T) {
	h := startHub(t, registration.SetupOptions{
		Gates: gates(t, nil), OwnNamespace: "open-cluster-management-hub", AgentLabels: agentlabels.AllowedKeys{"env"},
	})
	h.guardClusters(t)
	t.Run("in its ManagedCluster", func(t *testing.T) { changesItsCluster(t, h) })
	t.Run("by labels that an administrator leaves to it", func(t *testing.T) { changesAllowedLabels(t, h) })
	t.Run("by numbers of a gigabyte", func(t *testing.T) { reportsHostileQuantities(t, h) })
	t.Run("by claims", func(t *testing.T) { claimsAnotherRegion(t, h) })
	t.Run("by a ManagedCluster that cannot be changed", func(t *testing.T) { fillsItsCluster(t, h) })
	t.Run("by a ClusterConnection that cannot be changed", func(t *testing.T) { fillsItsConnection(t, h) })
	t.Run("by names of fields", func(t *testing.T) { fillsManagedFields(t, h) })
	t.Run("by events", func(t *testing.T) { recordsLargeEvents(t, h) })
	t.Run("by what it sends before it is accepted", func(t *testing.T) { joinsWithMegabytes(t, h) })
	t.Run("by names of its requests", func(t *testing.T) { joinsUnderStrangeNames(t, h) })
	t.Run("by requests that are not of clusters", func(t *testing.T) { asksForANode(t, h) })
	t.Run("by sending a token elsewhere", func(t *testing.T) { redirectsToken(t, h) })
	t.Run("by the marks of its works", func(t *testing.T) { changesItsWorks(t, h) })
}

// guardClusters installs the guards as the operator does, and waits until that of
// ManagedClusters is in force; the others come with it.
func (h *hub) guardClusters(t *testing.T) {
	t.Helper()
	if err := admissionv1.AddToScheme(h.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	hub := manifests.Hub{Name: "hub", OperatorNamespace: operatorNamespace}
	for i, object := range slices.Concat(manifests.AgentGuards(hub), manifests.ConnectionGuard(hub)) {
		typed := []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}}[i%2]
		content, err := json.Marshal(object)
		if err == nil {
			err = json.Unmarshal(content, typed)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.create(t, typed)
	}
	h.joinWith(t, "canary", nil)
	turn := 0
	h.eventually(t, "the guard is in force", func(ctx context.Context) (bool, error) {
		turn++
		err := h.changeAs(ctx, t, h.agent(t, "canary"), "canary", func(mc *clusterv1.ManagedCluster) {
			metav1.SetMetaDataLabel(&mc.ObjectMeta, "turn", fmt.Sprint(turn))
		})
		return apierrors.IsForbidden(err), nil
	})
}

// joinWith makes a cluster that is accepted and has an agent with its rights.
func (h *hub) joinWith(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	mc := cluster(name, true)
	mc.Labels = labels
	mc.Spec.Taints = []clusterv1.Taint{{Key: "keep-out", Effect: clusterv1.TaintEffectNoSelect}}
	h.create(t, mc)
	h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.hasRights(t, name, "one", true)
}

// changeAs changes a cluster as somebody; what the controllers write meanwhile does not
// matter.
func (h *hub) changeAs(ctx context.Context, t *testing.T, as client.Client, name string, change func(*clusterv1.ManagedCluster)) error {
	t.Helper()
	for {
		mc := h.read(ctx, t, name)
		change(mc)
		if err := as.Update(ctx, mc); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (h *hub) read(ctx context.Context, t *testing.T, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.client.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

func changesItsCluster(t *testing.T, h *hub) {
	const name = "changes"
	labels := map[string]string{"env": "staging", "team": "shop", clusterv1.LabelClusterSet: "shop"}
	h.joinWith(t, name, labels)
	annotate := func(key, value string) func(*clusterv1.ManagedCluster) {
		return func(mc *clusterv1.ManagedCluster) { metav1.SetMetaDataAnnotation(&mc.ObjectMeta, key, value) }
	}
	const spec, annotations = "nothing in the spec of its ManagedCluster but managedClusterClientConfigs", "no annotation of its ManagedCluster but"
	for what, c := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		// refusal is a part of the message, "" if it may.
		refusal string
	}{
		"another label":      {func(mc *clusterv1.ManagedCluster) { mc.Labels["tier"] = "gold" }, `ManagedCluster: tier. An administrator`},
		"two labels":         {func(mc *clusterv1.ManagedCluster) { mc.Labels["tier"], mc.Labels["team"] = "gold", "bank" }, "these labels of its ManagedCluster: t"},
		"another value":      {func(mc *clusterv1.ManagedCluster) { mc.Labels["team"] = "bank" }, `spec.agentLabels of ClusterConnection "changes"`},
		"a label taken away": {func(mc *clusterv1.ManagedCluster) { delete(mc.Labels, "team") }, "ManagedCluster: team."},
		"another set":        {func(mc *clusterv1.ManagedCluster) { mc.Labels[clusterv1.LabelClusterSet] = "bank" }, "clusterset."},
		"no set":             {func(mc *clusterv1.ManagedCluster) { delete(mc.Labels, clusterv1.LabelClusterSet) }, "clusterset."},
		"no label at all":    {func(mc *clusterv1.ManagedCluster) { mc.Labels = nil }, "team"},
		"no taints":          {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = nil }, spec},
		"another taint":      {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints[0].Key = "x" }, spec},
		"no acceptance":      {func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = false }, spec},
		"a long lease":       {func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 1 << 20 }, spec},
		"its own limits":     {annotate(fleetv1alpha1.AnnotationAgentLabels, "*"), annotations},
		"its own pins":       {annotate(fleetv1alpha1.AnnotationPinnedClaims, "{}"), annotations},
		"another agent":      {annotate(clusterv1.AnnotationAgents, "*"), annotations},
		"a quick end":        {annotate(fleetv1alpha1.AnnotationForceDetach, "true"), annotations},
		"no finalizers":      {func(mc *clusterv1.ManagedCluster) { mc.Finalizers = nil }, "neither the finalizers nor the owners"},
		"another finalizer":  {func(mc *clusterv1.ManagedCluster) { mc.Finalizers = append(mc.Finalizers, "example.com/stay") }, "neither the finalizers"},
		"an owner": {func(mc *clusterv1.ManagedCluster) {
			mc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "gone", UID: "gone"}}
		}, "nor the owners"},
		"a label left to it": {change: func(mc *clusterv1.ManagedCluster) { mc.Labels["env"] = "production" }},
		"its addresses": {change: func(mc *clusterv1.ManagedCluster) {
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://x:6443"}}
		}},
		"what it says of it":    {change: annotate(ownPrefix+"cluster-labels", "env")},
		"the hub as it sees it": {change: annotate(fleetv1alpha1.AnnotationHubURL, "https://hub:6443")},
		"the default set where it had none": {change: func(mc *clusterv1.ManagedCluster) {
			// as the hub's webhook does, for the request of an agent, too
			mc.Labels[clusterv1.LabelClusterSet] = clusterv1.DefaultClusterSet
		}, refusal: "clusterset."},
	} {
		before := h.get(t, name)
		err := h.changeAs(t.Context(), t, h.agent(t, name), name, c.change)
		switch {
		case c.refusal == "":
			if err != nil {
				t.Errorf("%s: the agent may not: %v", what, err)
			}
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.refusal):
			t.Errorf("%s: the API server says %v, want a refusal with %q", what, err, c.refusal)
		case !cmp.Equal(before.Labels, h.get(t, name).Labels):
			t.Errorf("%s: the labels are %v", what, h.get(t, name).Labels)
		}
	}
}

// changesAllowedLabels compares what the agent reads from its limits with what the API
// server says: they are the same rule twice.
func changesAllowedLabels(t *testing.T, h *hub) {
	const name = "allowed"
	h.joinWith(t, name, nil)
	keys := []string{"env", "environment", "example.com/env", "sub.example.com/env", "example.company/env", clusterv1.LabelClusterSet}
	for turn, allowed := range []agentlabels.AllowedKeys{nil, {}, {"env"}, {"example.com/*"}, {"example.com/env", "environment"}, {"*"}} {
		h.allow(t, name, allowed)
		for _, key := range keys {
			err := h.changeAs(t.Context(), t, h.agent(t, name), name, func(mc *clusterv1.ManagedCluster) {
				metav1.SetMetaDataLabel(&mc.ObjectMeta, key, fmt.Sprint("turn-", turn))
			})
			if may := err == nil; may != agentlabels.AllowedOf(h.get(t, name)).AllowsKey(key) || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("with %q, label %q: the API server says %v, the agent thinks it may: %v", allowed, key, err, !may)
			}
		}
	}
	if err := h.changeAs(t.Context(), t, h.client, name, func(mc *clusterv1.ManagedCluster) { delete(mc.Annotations, fleetv1alpha1.AnnotationAgentLabels) }); err != nil {
		t.Fatal(err)
	}
	h.limited(t, name, "*") // what the hub notes is the hub's
}

// allow leaves labels to the agent of a cluster, nil those that are the default of this
// hub, and waits until that holds.
func (h *hub) allow(t *testing.T, name string, allowed agentlabels.AllowedKeys) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"agentLabels": allowed}})
	if err != nil {
		t.Fatal(err)
	}
	h.connection(t.Context(), t, name)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := h.client.Patch(t.Context(), connection, client.RawPatch("application/merge-patch+json", text)); err != nil {
		t.Fatal(err)
	}
	if allowed == nil {
		allowed = agentlabels.AllowedKeys{"env"}
	}
	h.limited(t, name, allowed.String())
}

// limited waits until the hub has noted what the agent may change.
func (h *hub) limited(t *testing.T, name, want string) {
	t.Helper()
	h.eventually(t, fmt.Sprintf("the agent of %s may change %q", name, want), func(ctx context.Context) (bool, error) {
		got, noted := h.read(ctx, t, name).Annotations[fleetv1alpha1.AnnotationAgentLabels]
		return noted && got == want, nil
	})
}

// reportsHostileQuantities has the agent report capacity that every program of the hub
// which reads ManagedClusters or ClusterConnections would parse for hours.
func reportsHostileQuantities(t *testing.T, h *hub) {
	const name = "hostile"
	h.joinWith(t, name, nil)
	h.connection(t.Context(), t, name)
	agent := h.agent(t, name)
	for _, quantity := range []string{"1e-2000000000", "1e2000000000", "1e100", strings.Repeat("9", 100)} {
		for _, c := range []struct {
			object client.Object
			status string
		}{
			{&clusterv1.ManagedCluster{}, `{"status":{"allocatable":{"cpu":%q}}}`},
			{&fleetv1alpha1.ClusterConnection{}, `{"status":{"resourceSummary":{"allocatable":{"cpu":%q}}}}`},
		} {
			c.object.SetName(name)
			err := agent.Status().Patch(t.Context(), c.object, client.RawPatch("application/merge-patch+json", []byte(fmt.Sprintf(c.status, quantity))))
			if !apierrors.IsInvalid(err) {
				t.Errorf("the API server says %v of %T with cpu %.20s", err, c.object, quantity)
			}
		}
	}
}

func claimsAnotherRegion(t *testing.T, h *hub) {
	const name, region = "claims", "region.open-cluster-management.io"
	h.joinWith(t, name, nil)
	patch := fmt.Sprintf(`{"spec":{"pinnedClaims":[{"name":%q,"value":"eu"}]}}`, region)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := h.client.Patch(t.Context(), connection, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	says := []byte(fmt.Sprintf(`{"status":{"clusterClaims":[{"name":%q,"value":"us"},{"name":"gpu","value":"yes"}]}}`, region))
	if err := h.agent(t, name).Status().Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", says)); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the region is the administrator's", func(ctx context.Context) (bool, error) {
		is := view.FromCluster(h.read(ctx, t, name), nil)
		if diff := cmp.Diff(map[string]string{region: "eu", "gpu": "yes"}, is.Claims); diff != "" {
			return false, fmt.Errorf("claims (-want +got):\n%s", diff)
		}
		fields, err := is.FieldTree()
		if err != nil {
			return false, err
		}
		claims := fmt.Sprint(fields["status"].(map[string]any)["clusterClaims"])
		return is.Region == "eu" && !is.Reported.Region && strings.Contains(claims, "value:eu") && !strings.Contains(claims, "value:us"), nil
	})
	// The object goes on to show what the cluster reports.
	if reported := h.get(t, name).Status.ClusterClaims; !slices.ContainsFunc(reported, func(c clusterv1.ManagedClusterClaim) bool { return c.Value == "us" }) {
		t.Errorf("the cluster reports %v", reported)
	}
	if meta.FindStatusCondition(h.get(t, name).Status.Conditions, clusterv1.ManagedClusterConditionLabelsWithheld) != nil {
		t.Error("the hub says that labels are withheld, which only agents know")
	}
}
