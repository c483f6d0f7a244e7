// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

func TestAClusterIsApplied(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	clusters := h.DynamicClient(t, h.AdminConfig)
	apply := func(manager string, labels map[string]any, spec map[string]any) (*unstructured.Unstructured, error) {
		return clusters.Apply(t.Context(), "applied", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster",
			"metadata": map[string]any{"name": "applied", "labels": labels}, "spec": spec,
		}}, metav1.ApplyOptions{FieldManager: manager})
	}
	if _, err := apply("one", map[string]any{"a": "1", "b": "1"}, map[string]any{"syncMode": "Pull", "provider": "acme"}); err != nil {
		t.Fatalf("creating by apply: %v", err)
	}
	h.MirrorCluster(t, "applied")
	got, err := apply("one", map[string]any{"a": "1"}, map[string]any{"syncMode": "Pull", "provider": "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := got.GetLabels()["b"]; kept {
		t.Errorf("labels %v, want that b goes because its manager does not apply it any more", got.GetLabels())
	}
	_, err = apply("two", nil, map[string]any{"syncMode": "Pull", "provider": "other"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("applying the field of another manager: %v, want a conflict", err)
	}
	if !slices.ContainsFunc(got.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "one" && e.Operation == "Apply" }) {
		t.Errorf("managedFields %v, want those of one", got.GetManagedFields())
	}
}

func TestAnUpdateOfAnEarlierVersionConflicts(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "conflicts")
	first, second := &v1alpha1.Cluster{}, &v1alpha1.Cluster{}
	h.ReadObject(t, "conflicts", first)
	h.ReadObject(t, "conflicts", second)
	first.Spec.Provider = "one"
	if err := h.Update(t.Context(), first); err != nil || first.Generation != 2 {
		t.Fatalf("update: generation %d (%v), want 2", first.Generation, err)
	}
	second.Spec.Provider = "two"
	err := h.Update(t.Context(), second)
	if want := `Operation cannot be fulfilled on clusters.cluster.karmada.io "conflicts": the object has been modified`; !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("updating an earlier version: %v, want %s…", err, want)
	}
	second.ResourceVersion = ""
	if err := h.UpdateDynamic(t, second); err != nil {
		t.Errorf("updating without a version: %v", err)
	}
	same := &v1alpha1.Cluster{}
	h.ReadObject(t, "conflicts", same)
	version := same.ResourceVersion
	if err := h.Update(t.Context(), same); err != nil || same.ResourceVersion != version {
		t.Errorf("an update that changes nothing: version %s (%v), want %s", same.ResourceVersion, err, version)
	}
	same.UID = "another"
	if err := h.Update(t.Context(), same); !apierrors.IsConflict(err) {
		t.Errorf("updating another Cluster of the name: %v, want a conflict", err)
	}
	err = h.Update(t.Context(), aggregated.NewCluster("nowhere", v1alpha1.Pull))
	if err == nil || !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		t.Errorf("updating a Cluster that there is not: %v, want that it is not found", err)
	}
}

func TestMistakesInAClusterAreTold(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "mistakes")
	for name, test := range map[string]struct {
		change func(*v1alpha1.Cluster)
		want   string
	}{
		"Mode": {func(c *v1alpha1.Cluster) {
			c.Spec.SyncMode = v1alpha1.Push
			c.Spec.APIEndpoint = "https://a.example.com"
		}, "spec.syncMode: Invalid value"},
		"Proxy":    {func(c *v1alpha1.Cluster) { c.Spec.ProxyURL = "ftp://a.example.com" }, "spec.proxyURL: Invalid value"},
		"Effect":   {func(c *v1alpha1.Cluster) { c.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "Never"}} }, "spec.taints[0].effect: Unsupported value"},
		"Zones":    {func(c *v1alpha1.Cluster) { c.Spec.Zone = "a"; c.Spec.Zones = []string{"b"} }, "spec.zone: Invalid value"},
		"Provider": {func(c *v1alpha1.Cluster) { c.Spec.Provider = strings.Repeat("a", 300) }, "spec.provider: Too long"},
		"Label":    {func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"a": "not valid"} }, "metadata.labels: Invalid value"},
		"Finalizer": {
			func(c *v1alpha1.Cluster) { c.Finalizers = append(c.Finalizers, "example.com/mine") }, "metadata.finalizers[1]: Unsupported value",
		},
		"Models": {func(c *v1alpha1.Cluster) {
			c.Spec.ResourceModels[4].Ranges[0].Min = resource.MustParse("9")
		}, "spec.resourceModels[4].ranges[0].min: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &v1alpha1.Cluster{}
			h.ReadObject(t, "mistakes", cluster)
			test.change(cluster)
			err := h.Update(t.Context(), cluster)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), `Cluster.cluster.karmada.io "mistakes" is invalid`) {
				t.Errorf("got %v, want that %s", err, test.want)
			}
		})
	}
	err := h.Create(t.Context(), aggregated.NewCluster(strings.Repeat("a", 49), v1alpha1.Pull))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.name: Too long: may not be more than 48") {
		t.Errorf("a name of 49 characters: %v, want that it is too long", err)
	}
	unknown := []byte(`{"spec":{"nonsense":true}}`)
	_, err = h.DynamicClient(t, h.AdminConfig).Patch(t.Context(), "mistakes", types.MergePatchType, unknown, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a field that there is not: %v, want that it is unknown", err)
	}
}

func TestADryRunOfAClusterChangesNothing(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	dry := aggregated.NewCluster("dry", v1alpha1.Pull)
	if err := h.Create(t.Context(), dry, client.DryRunAll); err != nil || dry.UID == "" {
		t.Fatalf("creating without effect: %v (uid %q)", err, dry.UID)
	}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "dry"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run makes a ManagedCluster (%v)", err)
	}
	h.CreateJoined(t, "dry2")
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "dry2", cluster)
	version := cluster.ResourceVersion
	cluster.Labels = map[string]string{"a": "1"}
	if err := h.Update(t.Context(), cluster, client.DryRunAll); err != nil || cluster.Labels["a"] != "1" {
		t.Errorf("updating without effect: %v, labels %v", err, cluster.Labels)
	}
	if err := h.Delete(t.Context(), cluster, client.DryRunAll); err != nil {
		t.Error(err)
	}
	h.ReadObject(t, "dry2", cluster)
	if cluster.ResourceVersion != version {
		t.Errorf("dry runs change the Cluster: %+v", cluster)
	}
}

func TestOfTheStatusOfAClusterOnlyConditionsAreWritten(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "status", reported)
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "status", cluster)
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: "ServiceDomainNameResolutionReady", Status: metav1.ConditionTrue, Reason: "Resolved"})
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.ClusterConditionReady, Status: metav1.ConditionFalse, Reason: "Forged"})
	cluster.Status.KubernetesVersion, cluster.Spec.Provider = "v0", "forged"
	c, heard := h.WarnedOf(t)
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(*heard, "\n"); len(*heard) != 2 || !strings.Contains(all, "status.conditions[Ready] is not written") || !strings.Contains(all, "status but for conditions is not written") {
		t.Errorf("what is ignored is told by warnings %q", *heard)
	}
	h.ReadObject(t, "status", cluster)
	switch {
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, "ServiceDomainNameResolutionReady"):
		t.Errorf("conditions %v, want the one that was written", cluster.Status.Conditions)
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterConditionReady):
		t.Errorf("conditions %v, want that the hub's stay", cluster.Status.Conditions)
	case cluster.Status.KubernetesVersion != "v1.36.3" || cluster.Spec.Provider != "acme":
		t.Errorf("the Cluster is %+v, want that only the condition changes", cluster)
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	h.ReadObject(t, "status", connection)
	if !meta.IsStatusConditionTrue(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected) || len(connection.Status.Conditions) != 3 {
		t.Errorf("conditions of the connection are %v, want those of the agent and the one that was written", connection.Status.Conditions)
	}
	*heard = nil
	own := []byte(`{"status":{"conditions":[{"type":"ServiceDomainNameResolutionReady","status":"False","reason":"Broken","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if err := c.Status().Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, own)); err != nil || len(*heard) > 0 {
		t.Errorf("a condition of one's own: %v, warnings %q", err, *heard)
	}
	err := h.Status().Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Half","status":"True"}]}}`)))
	if !apierrors.IsInvalid(err) {
		t.Errorf("a condition without a reason: %v, want that it is invalid", err)
	}
}

func TestADeletedClusterIsThereUntilThatIsForced(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "deleted", func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
		mc.Finalizers = []string{clusterv1.FinalizerAPIResourceCleanup}
	})
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "deleted", cluster)
	err := h.Delete(t.Context(), cluster, client.Preconditions{UID: new(types.UID("another"))})
	if !apierrors.IsConflict(err) {
		t.Errorf("deleting another Cluster of the name: %v, want a conflict", err)
	}
	for range 2 {
		if err := h.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	h.ReadObject(t, "deleted", cluster)
	if cluster.DeletionTimestamp == nil || len(cluster.Finalizers) != 1 {
		t.Errorf("a deleted Cluster is %+v, want that it is terminating", cluster.ObjectMeta)
	}
	h.MirrorCluster(t, "deleted")
	mc := &clusterv1.ManagedCluster{}
	h.ReadObject(t, "deleted", mc)
	if mc.DeletionTimestamp == nil {
		t.Error("the ManagedCluster is not deleted")
	}

	// The deletion ends without the agent.
	cluster, mc = &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.ReadObject(t, "deleted", cluster)
	cluster.Finalizers = nil
	if err := h.Update(t.Context(), cluster); err != nil {
		t.Fatalf("forcing the deletion: %v", err)
	}
	h.MirrorCluster(t, "deleted")
	h.ReadObject(t, "deleted", mc)
	if mc.Annotations[fleetv1alpha1.AnnotationForceDetach] != "true" {
		t.Errorf("annotations of the ManagedCluster are %v, want that it does not wait for its agent", mc.Annotations)
	}
	mc.Finalizers = nil
	if err := h.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	h.ReadObject(t, "deleted", connection)
	if err := h.Delete(t.Context(), connection); err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(t.Context(), cluster); !apierrors.IsNotFound(err) {
		t.Errorf("deleting a Cluster that is gone: %v, want that it is not found", err)
	}
}

func TestManyClustersAreDeletedTogether(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "many1", labelled("many"))
	h.CreateJoined(t, "many2", labelled("many"))
	if err := h.DeleteAllOf(t.Context(), &v1alpha1.Cluster{}, client.MatchingLabels{"of": "many"}); err != nil {
		t.Fatal(err)
	}
	list := &v1alpha1.ClusterList{}
	if err := h.List(t.Context(), list, client.MatchingLabels{"of": "many"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		if c.DeletionTimestamp == nil {
			t.Errorf("Cluster %s is not deleted with the others", c.Name)
		}
	}
}

func labelled(of string) func(*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection) {
	return func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
		mc.Labels = map[string]string{"of": of}
	}
}
