// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

// TestClustersAreReadAtVersions reads at the versions that clients ask for.
func TestClustersAreReadAtVersions(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "version1", labelled("versions"))
	clusters := h.DynamicClient(t, h.AdminConfig)
	of := metav1.ListOptions{LabelSelector: "of=versions"}
	first, err := clusters.List(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	h.CreateJoined(t, "version2", labelled("versions"))

	exact := of
	exact.ResourceVersion, exact.ResourceVersionMatch, exact.Limit = first.GetResourceVersion(), metav1.ResourceVersionMatchExact, 10
	list, err := clusters.List(t.Context(), exact)
	if err != nil || len(list.Items) != 1 || list.GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("list at version %s: %d Clusters at %s (%v), want the one of then", exact.ResourceVersion, len(list.Items), list.GetResourceVersion(), err)
	}
	newer := of
	newer.ResourceVersion, newer.ResourceVersionMatch = first.GetResourceVersion(), metav1.ResourceVersionMatchNotOlderThan
	if _, err := clusters.List(t.Context(), newer); err != nil {
		t.Errorf("list not older than a version: %v", err)
	}
	if _, err := clusters.Get(t.Context(), "version1", metav1.GetOptions{ResourceVersion: "0"}); err != nil {
		t.Errorf("get of any version: %v", err)
	}
	before := h.Crashes.CountRequests()
	err = discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig).RESTClient().Get().MaxRetries(0).
		AbsPath("/apis/"+v1alpha1.GroupVersion.String()+"/clusters/version1").Param("resourceVersion", "999999999").Do(t.Context()).Error()
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("get of a version to come: %v, want that it is too large", err)
	}
	same(t, "requests to the hub for it, of which none is a repetition", h.Crashes.CountRequests()-before, 1)

	from := of
	from.ResourceVersion = first.GetResourceVersion()
	watcher, err := clusters.Watch(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if kind, o := next(t, watcher); kind != watch.Added || o.GetName() != "version2" {
		t.Errorf("first event after version %s is %s %s, want that version2 is added", from.ResourceVersion, kind, o.GetName())
	}
	if err := expired(t, h); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from a version that is long gone: %v, want 410", err)
	}
}

// expired returns the error of a watch from the first version of all.
func expired(t testing.TB, h *aggregated.Hub) error {
	t.Helper()
	watcher, err := h.DynamicClient(t, h.AdminConfig).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	select {
	case event := <-watcher.ResultChan():
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		return fmt.Errorf("event %s", event.Type)
	case <-time.After(aggregated.Patience):
		return errors.New("no event")
	}
}

// TestAWatchByLabelSeesWhatLeavesAndWhatEnters watches by label: a Cluster that leaves the selection is deleted
// for the watcher, and one that enters is added.
func TestAWatchByLabelSeesWhatLeavesAndWhatEnters(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "selected", labelled("selection"))
	clusters := h.DynamicClient(t, h.AdminConfig)
	list, err := clusters.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := clusters.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), LabelSelector: "of=selection"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for _, step := range []struct {
		label string
		want  watch.EventType
	}{{`null`, watch.Deleted}, {`"selection"`, watch.Added}} {
		patch := []byte(`{"metadata":{"labels":{"of":` + step.label + `}}}`)
		if _, err := clusters.Patch(t.Context(), "selected", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if kind, o := next(t, watcher); kind != step.want || o.GetName() != "selected" || o.GetUID() == "" {
			t.Errorf("with label %s: %s %s, want %s", step.label, kind, o.GetName(), step.want)
		}
	}
}

// TestClustersAreInTheSecondOpenAPI reads the second version, which kubectl and SDKs use besides the third.
func TestClustersAreInTheSecondOpenAPI(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	d := discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig)
	aggregated.Eventually(t, "the OpenAPI of Clusters is published in version 2", func(context.Context) error {
		document, err := d.OpenAPISchema()
		if err != nil {
			return err
		}
		for _, path := range document.GetPaths().GetPath() {
			if path.GetName() == "/apis/"+v1alpha1.GroupVersion.String()+"/clusters/{name}/status" {
				return nil
			}
		}
		return errors.New("it has no path of clusters/status")
	})
}

// TestKubectlReadsAndWritesClusters types what users type.
func TestKubectlReadsAndWritesClusters(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "typed", reported, labelled("kubectl"))
	_, kubeconfig := h.AddUser(t, "admin", "system:masters")
	h.WriteFile(t, "admin.kubeconfig", kubeconfig)
	kubectl := func(input string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
			append([]string{"--kubeconfig", filepath.Join(h.Folder, "admin.kubeconfig"), "--cache-dir", t.TempDir()}, args...)...)
		command.Stdin = strings.NewReader(input)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	table := strings.Split(kubectl("", "get", "clusters", "-o", "wide", "-l", "of=kubectl"), "\n")
	same(t, "columns", strings.Fields(table[0]), strings.Fields("NAME VERSION MODE READY AGE ZONES REGION PROVIDER API-ENDPOINT PROXY-URL"))
	row := strings.Fields(table[1])
	row[4] = "age"
	same(t, "row", row, strings.Fields("typed v1.36.3 Push True age eu-1,eu-2 eu acme https://member.example.com:6443 http://proxy.example.com"))
	for _, step := range []struct {
		input, want string
		args        []string
	}{
		{"", "labeled", []string{"label", "cluster", "typed", "tier=gold"}},
		{"", "annotated", []string{"annotate", "cluster", "typed", "note=mine"}},
		{"", "patched", []string{"patch", "cluster", "typed", "-p", `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`}},
		{"", "serverside-applied", []string{"apply", "--server-side", "-f", "-"}},
		{"", "configured", []string{"apply", "-f", "-"}},
		{"", "FIELD: taints", []string{"explain", "cluster.spec.taints"}},
		{"", "gold", []string{"get", "clusters", "-l", "tier=gold", "-o", "jsonpath={.items[*].metadata.labels.tier}"}},
		{"", "ClusterReady", []string{"describe", "cluster", "typed"}},
		{"", "condition met", []string{"wait", "cluster", "typed", "--for=condition=Ready"}},
		{"", "deleted", []string{"delete", "cluster", "typed", "--wait=false"}},
	} {
		if step.args[0] == "apply" {
			step.input = `{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","metadata":{"name":"typed"},` +
				`"spec":{"syncMode":"Push","apiEndpoint":"https://member.example.com:6443"}}`
		}
		if out := kubectl(step.input, step.args...); !strings.Contains(out, step.want) {
			t.Errorf("kubectl %s: got %s, want %q", strings.Join(step.args, " "), out, step.want)
		}
	}
}

// TestClientsOfKarmadaAndOfOCMUndoNothingOfEachOther writes to a cluster as a client of Karmada and as one of OCM, at
// the same time and in between: neither undoes the other.
func TestClientsOfKarmadaAndOfOCMUndoNothingOfEachOther(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "shared", func(mc *clusterv1.ManagedCluster, _ *fleetv1alpha1.ClusterConnection) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: "of/ocm", Effect: clusterv1.TaintEffectNoSelect}}
	})
	for i := range 5 {
		cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
		h.ReadObject(t, "shared", cluster)
		h.ReadObject(t, "shared", mc)
		ocm, karmada := mc.DeepCopy(), cluster.DeepCopy()
		metav1.SetMetaDataLabel(&ocm.ObjectMeta, fmt.Sprintf("ocm-%d", i), "1")
		metav1.SetMetaDataLabel(&karmada.ObjectMeta, fmt.Sprintf("karmada-%d", i), "1")
		if err := h.Patch(t.Context(), karmada, client.MergeFrom(cluster)); err != nil {
			t.Fatal(err)
		}
		if err := h.Update(t.Context(), ocm); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			h.MirrorCluster(t, "shared")
		}
	}
	h.MirrorCluster(t, "shared")
	cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.ReadObject(t, "shared", cluster)
	h.ReadObject(t, "shared", mc)
	same(t, "labels of both", len(mc.Labels), 10)
	same(t, "labels of the Cluster", cluster.Labels, mc.Labels)
	same(t, "taints of the Cluster", len(cluster.Spec.Taints), 1)
}

// TestManyPatchesAtOnceDoNotConflict patches one Cluster many times at once: no patch that names no
// version conflicts with another one.
func TestManyPatchesAtOnceDoNotConflict(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "at-once")
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for i := range 10 {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"of-%d":"%d"}}}`, writer, i)
				if err := h.Patch(t.Context(), aggregated.NewCluster("at-once", v1alpha1.Pull), client.RawPatch(types.MergePatchType, patch)); err != nil {
					t.Errorf("patch %d of writer %d: %v", i, writer, err)
				}
				status := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Of","status":"True","reason":"R%d","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, i)
				if err := h.Status().Patch(t.Context(), aggregated.NewCluster("at-once", v1alpha1.Pull), client.RawPatch(types.MergePatchType, status)); err != nil {
					t.Errorf("patch %d of the status of writer %d: %v", i, writer, err)
				}
			}
		})
	}
	group.Wait()
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "at-once", cluster)
	same(t, "annotations", cluster.Annotations, map[string]string{"of-0": "9", "of-1": "9", "of-2": "9", "of-3": "9"})
}

// TestThePlaceThatTheAgentReportsStays replaces a Cluster by one that does not say where it is: that is what
// its agent reports, so nothing changes.
func TestThePlaceThatTheAgentReportsStays(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateJoined(t, "place", func(_ *clusterv1.ManagedCluster, c *fleetv1alpha1.ClusterConnection) {
		c.Status.Zones, c.Status.Region = []string{"us-1"}, "us"
		c.Status.Conditions = []metav1.Condition{{Type: "Any", Status: metav1.ConditionTrue, Reason: "Any", LastTransitionTime: metav1.Now().Rfc3339Copy()}}
	})
	before := &v1alpha1.Cluster{}
	h.ReadObject(t, "place", before)
	same(t, "place", []string{before.Spec.Region, strings.Join(before.Spec.Zones, ",")}, []string{"us", "us-1"})
	if err := h.UpdateDynamic(t, aggregated.NewCluster("place", v1alpha1.Pull)); err != nil {
		t.Fatal(err)
	}
	after := &v1alpha1.Cluster{}
	h.ReadObject(t, "place", after)
	same(t, "spec", after.Spec, before.Spec)
	same(t, "generation", after.Generation, before.Generation)
}
