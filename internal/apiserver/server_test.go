// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

func TestClustersAreDiscoveredAndDescribed(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	d := discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig)
	list, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range list.APIResources {
		got[r.Name] = r.Kind + " " + strings.Join(r.Verbs, ",")
	}
	if diff := cmp.Diff(map[string]string{
		"clusters":        "Cluster create,delete,deletecollection,get,list,patch,update,watch",
		"clusters/status": "Cluster get,patch,update",
	}, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	aggregated.Eventually(t, "the OpenAPI of Clusters is published", func(context.Context) error {
		paths, err := d.OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		path, ok := paths["apis/"+v1alpha1.GroupVersion.String()]
		if !ok {
			return fmt.Errorf("the hub describes no %s", v1alpha1.GroupVersion)
		}
		document, err := path.Schema("application/json")
		if err != nil {
			return err
		}
		if !strings.Contains(string(document), "resourceModels sort the nodes into grades") {
			return fmt.Errorf("the fields of a Cluster are not described")
		}
		return nil
	})
}

// reported is a cluster about which everything is known.
func reported(mc *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) {
	mc.Labels = map[string]string{"env": "prod"}
	now := metav1.Now().Rfc3339Copy()
	mc.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: now},
		{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "Available", Message: "healthy", LastTransitionTime: now},
	}
	connection.Spec = fleetv1alpha1.ClusterConnectionSpec{
		SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member.example.com:6443", ProxyURL: "http://proxy.example.com",
		Provider: "acme", Region: "eu", Zones: []string{"eu-1", "eu-2"},
	}
	connection.Status = fleetv1alpha1.ClusterConnectionStatus{
		KubernetesVersion: "v1.36.3",
		Conditions: []metav1.Condition{
			{Type: fleetv1alpha1.ClusterConnectionConditionConnected, Status: metav1.ConditionTrue, Reason: "Connected", LastTransitionTime: now},
			{Type: fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements, Status: metav1.ConditionTrue, Reason: "Complete", LastTransitionTime: now},
		},
		NodeSummary: &fleetv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 2},
	}
}

func TestAClusterIsReadAsItsConnectionSays(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "read", reported)
	connection, cluster := &fleetv1alpha1.ClusterConnection{}, &v1alpha1.Cluster{}
	h.ReadObject(t, "read", connection)
	h.ReadObject(t, "read", cluster)
	if cluster.UID == connection.UID || cluster.UID == connection.Cluster.UID || cluster.UID == "" {
		t.Errorf("uid is %q, which is that of another object", cluster.UID)
	}
	same(t, "resourceVersion", cluster.ResourceVersion, connection.ResourceVersion)
	same(t, "syncMode", cluster.Spec.SyncMode, v1alpha1.Push)
	same(t, "labels", cluster.Labels, map[string]string{"env": "prod"})
	same(t, "number of resource models", len(cluster.Spec.ResourceModels), 9)
	same(t, "Ready", meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterConditionReady), true)

	h.CreateObject(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "alone"}})
	err := h.Get(t.Context(), client.ObjectKey{Name: "alone"}, cluster)
	if want := `clusters.cluster.karmada.io "alone" not found`; err == nil || err.Error() != want || !apierrors.IsNotFound(err) {
		t.Errorf("the connection of no ManagedCluster: %v, want %s", err, want)
	}
}

// same compares what is with what is wanted.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestClustersAreSelectedByLabelAndName(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "select", labelled("select"))
	list := &v1alpha1.ClusterList{}
	if err := h.List(t.Context(), list, client.MatchingLabels{"of": "select"}); err != nil || len(list.Items) != 1 || list.ResourceVersion == "" {
		t.Errorf("list by label: %d Clusters at %q (%v), want the one with the label", len(list.Items), list.ResourceVersion, err)
	}
	if err := h.List(t.Context(), list, client.MatchingFields{"metadata.name": "select"}); err != nil || len(list.Items) != 1 {
		t.Errorf("list by name: %d Clusters (%v), want one", len(list.Items), err)
	}
	if err := h.List(t.Context(), list, client.MatchingFields{"spec.provider": "acme"}); !apierrors.IsBadRequest(err) {
		t.Errorf("list by a field that cannot be selected: %v, want that it is a bad request", err)
	}
}

func TestClustersAreShownAsATable(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "table", reported, labelled("table"))
	table := &metav1.Table{}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/clusters"
	raw := discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig).RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("labelSelector", "of=table").Do(t.Context())
	content, err := raw.Raw()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, table); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(table.ColumnDefinitions))
	for _, c := range table.ColumnDefinitions {
		names = append(names, fmt.Sprintf("%s:%d", c.Name, c.Priority))
	}
	if diff := cmp.Diff("Name:0 Version:0 Mode:0 Ready:0 Age:0 Zones:1 Region:1 Provider:1 API-Endpoint:1 Proxy-URL:1", strings.Join(names, " ")); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want one", len(table.Rows))
	}
	cells := table.Rows[0].Cells
	cells[4] = "age"
	if diff := cmp.Diff([]any{
		"table", "v1.36.3", "Push", "True", "age", "eu-1,eu-2", "eu", "acme", "https://member.example.com:6443", "http://proxy.example.com",
	}, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func TestClustersAreListedInPages(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	want := map[string]bool{}
	for i := range 5 {
		name := fmt.Sprintf("page%d", i)
		h.CreateJoined(t, name, func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
			mc.Labels = map[string]string{"pages": "yes"}
		})
		want[name] = true
	}
	got, next, pages := map[string]bool{}, "", 0
	for {
		list := &v1alpha1.ClusterList{}
		if err := h.List(t.Context(), list, client.MatchingLabels{"pages": "yes"}, client.Limit(2), client.Continue(next)); err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Items {
			got[c.Name] = true
		}
		pages++
		if next = list.Continue; next == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
	err := h.List(t.Context(), &v1alpha1.ClusterList{}, client.Limit(2), client.Continue("nonsense"))
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a continue token that is none: %v, want that it is a bad request", err)
	}
}

func TestClustersAreWatched(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "watch1")
	h.CreateObject(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "watched-alone"}})
	watcher, err := h.DynamicClient(t, h.AdminConfig).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		LabelSelector: "pages!=yes,env!=prod",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		kind, o := next(t, watcher)
		if kind == watch.Bookmark {
			same(t, "the bookmark after the initial events", []string{o.GetAnnotations()[metav1.InitialEventsAnnotationKey], o.GetKind()}, []string{"true", "Cluster"})
			break
		}
		if kind != watch.Added || o.GetName() == "watched-alone" {
			t.Fatalf("initial event %s %s", kind, o.GetName())
		}
	}
	h.CreateObject(t, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "watch2"}})
	h.CreateObject(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "watch2"}})
	h.MirrorCluster(t, "watch2")
	if kind, o := nextChange(t, watcher); kind != watch.Added || o.GetName() != "watch2" {
		t.Errorf("a connection became a Cluster: %s %s, want that it is added", kind, o.GetName())
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	h.ReadObject(t, "watch2", connection)
	if err := h.Delete(t.Context(), connection); err != nil {
		t.Fatal(err)
	}
	if kind, o := nextChange(t, watcher); kind != watch.Deleted || o.GetName() != "watch2" || o.GetKind() != "Cluster" {
		t.Errorf("the connection is gone: %s %s %s, want that the Cluster is deleted", kind, o.GetKind(), o.GetName())
	}
}

// nextChange returns the next event of a watch that is no bookmark: those come now
// and then.
func nextChange(t testing.TB, watcher watch.Interface) (watch.EventType, *unstructured.Unstructured) {
	t.Helper()
	for {
		if kind, o := next(t, watcher); kind != watch.Bookmark {
			return kind, o
		}
	}
}

// next returns the next event of a watch.
func next(t testing.TB, watcher watch.Interface) (watch.EventType, *unstructured.Unstructured) {
	t.Helper()
	select {
	case event := <-watcher.ResultChan():
		o, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the event has a %T: %v", event.Object, event.Object)
		}
		return event.Type, o
	case <-time.After(aggregated.Patience):
		t.Fatal("no event")
	}
	return "", nil
}

func TestAClusterIsCreated(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	created := aggregated.NewCluster("created", v1alpha1.Push)
	created.Labels, created.Annotations = map[string]string{"env": "test"}, map[string]string{"note": "mine"}
	created.Spec.Zone, created.Spec.ID = "eu-1", "an-id-that-the-hub-will-learn"
	created.Spec.Taints = []corev1.Taint{{Key: "example.com/new", Effect: corev1.TaintEffectNoExecute}}
	h.CreateObject(t, created)
	if created.UID == "" || created.Spec.Taints[0].TimeAdded == nil {
		t.Errorf("uid %q and taints %v, want a uid, and a time with NoExecute", created.UID, created.Spec.Taints)
	}
	same(t, "generation", created.Generation, int64(1))
	same(t, "annotations", created.Annotations, map[string]string{"note": "mine"})
	same(t, "finalizers", created.Finalizers, []string{v1alpha1.Finalizer})
	same(t, "zone, zones and id", []string{created.Spec.Zone, strings.Join(created.Spec.Zones, ","), created.Spec.ID}, []string{"", "eu-1", ""})
	same(t, "secretRef", created.Spec.SecretRef, &v1alpha1.LocalSecretReference{Namespace: "created", Name: "cluster-connection"})
	mc := &clusterv1.ManagedCluster{}
	h.ReadObject(t, "created", mc)
	same(t, "acceptance before the intent is completed", mc.Spec.HubAcceptsClient, false)
	same(t, "labels of the ManagedCluster", mc.Labels, map[string]string{"env": "test"})
	same(t, "effect of the ManagedCluster's taint", mc.Spec.Taints[0].Effect, clusterv1.TaintEffectNoSelect)
	h.MirrorCluster(t, "created")
	h.ReadObject(t, "created", mc)
	if !mc.Spec.HubAcceptsClient {
		t.Error("the intent does not accept the cluster")
	}
	err := h.Create(t.Context(), aggregated.NewCluster("created", v1alpha1.Push))
	if want := `clusters.cluster.karmada.io "created" already exists`; !apierrors.IsAlreadyExists(err) || err.Error() != want {
		t.Errorf("creating it again: %v, want %s", err, want)
	}
}

// TestAClusterIsCreatedOfAManagedClusterThatIsThere creates Clusters of ManagedClusters that are there.
func TestAClusterIsCreatedOfAManagedClusterThatIsThere(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "waiting", func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
		mc.Spec.HubAcceptsClient = false
		mc.Labels = map[string]string{"of": "the-agent"}
		mc.Spec.Taints = []clusterv1.Taint{{Key: "of/agent", Effect: clusterv1.TaintEffectNoSelectIfNew}}
	})
	created := aggregated.NewCluster("waiting", v1alpha1.Pull)
	created.Labels = map[string]string{"of-the": "user"}
	h.CreateObject(t, created)
	if created.Labels["of"] != "the-agent" || created.Labels["of-the"] != "user" || len(created.Spec.Taints) != 1 {
		t.Errorf("the Cluster of a ManagedCluster that waited has labels %v and taints %v, want those of both", created.Labels, created.Spec.Taints)
	}
	h.MirrorCluster(t, "waiting")
	mc := &clusterv1.ManagedCluster{}
	h.ReadObject(t, "waiting", mc)
	if !mc.Spec.HubAcceptsClient || mc.Labels["of-the"] != "user" {
		t.Errorf("the ManagedCluster is %+v, want it accepted with the label", mc)
	}
	h.CreateObject(t, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "known"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}})
	if err := h.Create(t.Context(), aggregated.NewCluster("known", v1alpha1.Pull)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating a Cluster that the hub has accepted: %v, want that it exists", err)
	}
}

func TestLabelsOfAClusterAreThoseOfItsManagedCluster(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "labels", func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
		mc.Labels = map[string]string{"old": "1", "kept": "1"}
	})
	before := &v1alpha1.Cluster{}
	h.ReadObject(t, "labels", before)
	clusters := h.DynamicClient(t, h.AdminConfig)
	after, err := clusters.Patch(t.Context(), "labels", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"1","old":null}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.GetLabels()["new"] != "1" || after.GetGeneration() != before.Generation {
		t.Errorf("labels %v, generation %d, want the new label and the generation of before, %d", after.GetLabels(), after.GetGeneration(), before.Generation)
	}
	// An OCM client writes in between: both are kept.
	mc := &clusterv1.ManagedCluster{}
	h.ReadObject(t, "labels", mc)
	mc.Labels["of-ocm"] = "1"
	if err := h.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	if _, err := clusters.Patch(t.Context(), "labels", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels/more","value":"1"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.MirrorCluster(t, "labels")
	h.ReadObject(t, "labels", mc)
	want := map[string]string{"kept": "1", "new": "1", "more": "1", "of-ocm": "1"}
	if diff := cmp.Diff(want, mc.Labels); diff != "" {
		t.Errorf("labels of the ManagedCluster (-want +got):\n%s", diff)
	}
	h.ReadObject(t, "labels", before)
	if diff := cmp.Diff(want, before.Labels); diff != "" {
		t.Errorf("labels of the Cluster (-want +got):\n%s", diff)
	}
}

func TestTaintsOfAClusterAreThoseOfItsManagedCluster(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "taints")
	clusters := h.DynamicClient(t, h.AdminConfig)
	taint := func(patch string) *v1alpha1.Cluster {
		t.Helper()
		if _, err := clusters.Patch(t.Context(), "taints", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster := &v1alpha1.Cluster{}
		h.ReadObject(t, "taints", cluster)
		return cluster
	}
	mc := &clusterv1.ManagedCluster{}
	cordon := `{"spec":{"taints":[{"key":"cluster.karmada.io/unschedulable","effect":"NoSchedule"}]}}`
	first := taint(cordon)
	h.MirrorCluster(t, "taints")
	h.ReadObject(t, "taints", mc)
	if len(mc.Spec.Taints) != 1 || mc.Spec.Taints[0].Effect != clusterv1.TaintEffectNoSelectIfNew || first.Generation != 2 {
		t.Errorf("generation %d and taints %v, want 2 and one of the ManagedCluster", first.Generation, mc.Spec.Taints)
	}
	if again := taint(cordon); again.Generation != 2 {
		t.Errorf("the same taint again: generation %d, want 2", again.Generation)
	}
	if last := taint(`{"spec":{"taints":null}}`); last.Generation != 3 || len(last.Spec.Taints) != 0 {
		t.Errorf("generation %d and taints %v, want 3 and none", last.Generation, last.Spec.Taints)
	}
	h.MirrorCluster(t, "taints")
	h.ReadObject(t, "taints", mc)
	if len(mc.Spec.Taints) != 0 {
		t.Errorf("taints of the ManagedCluster are %v, want none", mc.Spec.Taints)
	}
}
