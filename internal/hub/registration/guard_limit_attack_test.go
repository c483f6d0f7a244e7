// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestAMemberDoesNotChooseWhatItIsSent attacks with the credential of a joined agent: it
// changes what an administrator says of its cluster, and so what policies, placements and
// cluster sets send there.
func TestAMemberDoesNotChooseWhatItIsSent(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "changes"
	labels := map[string]string{"env": "staging", "team": "shop", clusterv1.LabelClusterSet: "shop"}
	h.JoinWithLabels(t, name, labels)
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
		"what it says of it":    {change: annotate(hub.OwnPrefix+"cluster-labels", "env")},
		"the hub as it sees it": {change: annotate(fleetv1alpha1.AnnotationHubURL, "https://hub:6443")},
		"the default set where it had none": {change: func(mc *clusterv1.ManagedCluster) {
			// as the hub's webhook does, for the request of an agent, too
			mc.Labels[clusterv1.LabelClusterSet] = clusterv1.DefaultClusterSet
		}, refusal: "clusterset."},
	} {
		before := h.ReadCluster(t, name)
		err := h.ChangeAs(t.Context(), t, h.AgentClient(t, name), name, c.change)
		switch {
		case c.refusal == "":
			if err != nil {
				t.Errorf("%s: the agent may not: %v", what, err)
			}
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.refusal):
			t.Errorf("%s: the API server says %v, want a refusal with %q", what, err, c.refusal)
		case !cmp.Equal(before.Labels, h.ReadCluster(t, name).Labels):
			t.Errorf("%s: the labels are %v", what, h.ReadCluster(t, name).Labels)
		}
	}
}

// TestAMemberChangesNoLabelsButThoseLeftToIt compares what the agent reads from its limits with what the API
// server says: they are the same rule twice.
func TestAMemberChangesNoLabelsButThoseLeftToIt(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "allowed"
	h.JoinWithLabels(t, name, nil)
	keys := []string{"env", "environment", "example.com/env", "sub.example.com/env", "example.company/env", clusterv1.LabelClusterSet}
	for turn, allowed := range []agentlabels.AllowedKeys{nil, {}, {"env"}, {"example.com/*"}, {"example.com/env", "environment"}, {"*"}} {
		h.AllowLabels(t, name, allowed)
		for _, key := range keys {
			err := h.ChangeAs(t.Context(), t, h.AgentClient(t, name), name, func(mc *clusterv1.ManagedCluster) {
				metav1.SetMetaDataLabel(&mc.ObjectMeta, key, fmt.Sprint("turn-", turn))
			})
			if may := err == nil; may != agentlabels.AllowedOf(h.ReadCluster(t, name)).AllowsKey(key) || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("with %q, label %q: the API server says %v, the agent thinks it may: %v", allowed, key, err, !may)
			}
		}
	}
	if err := h.ChangeAs(t.Context(), t, h.Client, name, func(mc *clusterv1.ManagedCluster) { delete(mc.Annotations, fleetv1alpha1.AnnotationAgentLabels) }); err != nil {
		t.Fatal(err)
	}
	h.IsLimited(t, name, "*") // what the hub notes is the hub's
}

// TestAMemberReportsNoNumbersOfAGigabyte has the agent report capacity that every program of the hub
// which reads ManagedClusters or ClusterConnections would parse for hours.
func TestAMemberReportsNoNumbersOfAGigabyte(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "hostile"
	h.JoinWithLabels(t, name, nil)
	h.ReadConnection(t.Context(), t, name)
	agent := h.AgentClient(t, name)
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

func TestAMemberDoesNotClaimAnotherRegion(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name, region = "claims", "region.open-cluster-management.io"
	h.JoinWithLabels(t, name, nil)
	patch := fmt.Sprintf(`{"spec":{"pinnedClaims":[{"name":%q,"value":"eu"}]}}`, region)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := h.Client.Patch(t.Context(), connection, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	says := []byte(fmt.Sprintf(`{"status":{"clusterClaims":[{"name":%q,"value":"us"},{"name":"gpu","value":"yes"}]}}`, region))
	if err := h.AgentClient(t, name).Status().Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", says)); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the region is the administrator's", func(ctx context.Context) (bool, error) {
		is := view.FromCluster(h.ReadClusterIn(ctx, t, name), nil)
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
	if reported := h.ReadCluster(t, name).Status.ClusterClaims; !slices.ContainsFunc(reported, func(c clusterv1.ManagedClusterClaim) bool { return c.Value == "us" }) {
		t.Errorf("the cluster reports %v", reported)
	}
	if meta.FindStatusCondition(h.ReadCluster(t, name).Status.Conditions, clusterv1.ManagedClusterConditionLabelsWithheld) != nil {
		t.Error("the hub says that labels are withheld, which only agents know")
	}
}
