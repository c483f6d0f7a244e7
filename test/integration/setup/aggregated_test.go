// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/setup/harness"
	"github.com/capstan-io/capstan/test/integration/setup/programs"
)

// TestClusterAPI is a hub with the gate AggregatedAPI as users of Karmada see it:
// kubectl, the hub's API server, and what the operator has installed, with the
// certificates and permissions that it made.
func TestClusterAPI(t *testing.T) {
	c := harness.NewCluster(t, servers, env.WithAggregation(t), env.WithAggregatorRouting)
	p := programs.StartPrograms(t, c)
	if code, _ := c.RunCapstan(t, "init", "--image", "example.com/capstan:1", "--feature-gates", "AggregatedAPI=true"); code != exit.OK {
		t.Fatalf("exit code %d", code)
	}
	p.RunAll(t)
	c.Eventually(t, "the Cluster API is available", func(ctx context.Context) error {
		return c.IsDegraded(ctx, "APIServerFunctional")
	})
	c.JoinCluster(t, "member1", fleetv1alpha1.SyncModePull)
	c.JoinCluster(t, "member2", fleetv1alpha1.SyncModePush)

	t.Run("clusters of both modes", func(t *testing.T) { testClustersOfBothModes(t, c) })
	t.Run("a label, a taint and the deletion reach the ManagedCluster", func(t *testing.T) { testWritesReachTheHub(t, c) })
	t.Run("nobody gets more by it", func(t *testing.T) { testNobodyGetsMore(t, c) })
	c.MakeDedicated(t)
	t.Run("samples of Karmada apply on a dedicated hub", func(t *testing.T) { testSamplesOfKarmada(t, c) })
	t.Run("karmadactl joins a cluster that has nothing of ours, and unjoins it", func(t *testing.T) { testKarmadactl(t, c, p) })
	t.Run("without the gate", func(t *testing.T) { testWithoutTheGate(t, c, p) })
}

// testClustersOfBothModes looks at the clusters as kubectl shows them.
func testClustersOfBothModes(t *testing.T, c *harness.Cluster) {
	c.Eventually(t, "kubectl shows both clusters", func(ctx context.Context) error {
		out, err := c.RunKubectl(ctx, "get", "clusters", "-o", "wide")
		if err != nil {
			return err
		}
		var rows [][]string
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if len(fields) > 4 {
				fields = slices.Delete(fields, 4, 5) // the age
			}
			rows = append(rows, fields)
		}
		want := [][]string{
			{"NAME", "VERSION", "MODE", "READY", "ZONES", "REGION", "PROVIDER", "API-ENDPOINT", "PROXY-URL"},
			{"member1", "v1.36.3", "Pull", "True", "<none>", "here", "<none>", "<none>", "<none>"},
			{"member2", "v1.36.3", "Push", "True", "<none>", "here", "<none>", "https://member2.example.com", "<none>"},
		}
		if !slices.EqualFunc(rows, want, slices.Equal) {
			return fmt.Errorf("it shows\n%s", out)
		}
		return nil
	})
}

// testWritesReachTheHub changes a cluster as users of Karmada do.
func testWritesReachTheHub(t *testing.T, c *harness.Cluster) {
	for _, args := range [][]string{
		{"label", "cluster", "member1", "team=fleet"},
		{"patch", "cluster", "member1", "--type=merge", "-p", `{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}}`},
		{"wait", "--for=condition=Ready", "cluster/member1"},
	} {
		if _, err := c.RunKubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(t, "the ManagedCluster has what was written", func(ctx context.Context) error {
		mc := &clusterv1.ManagedCluster{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: "member1"}, mc); err != nil {
			return err
		}
		if len(mc.Spec.Taints) != 1 || mc.Spec.Taints[0].Key != "gpu" || mc.Labels["team"] != "fleet" {
			return fmt.Errorf("it has labels %v and taints %v", mc.Labels, mc.Spec.Taints)
		}
		return nil
	})
	if _, err := c.RunKubectl(t.Context(), "delete", "cluster", "member1", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	c.IsGone(t, &clusterv1.ManagedCluster{}, client.ObjectKey{Name: "member1"})
}

// testNobodyGetsMore lets a user who may write Clusters, and nothing else, accept one.
func testNobodyGetsMore(t *testing.T, c *harness.Cluster) {
	name := metav1.ObjectMeta{Name: "clusters-only"}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name.Name}},
		},
	} {
		if err := c.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	content := `{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","metadata":{"name":"own"},"spec":{"syncMode":"Pull"}}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "a user who may not accept clusters makes none", func(ctx context.Context) error {
		out, err := c.RunKubectl(ctx, "create", "-f", file, "--as", name.Name)
		if err == nil || !strings.Contains(out, "a Cluster that is created is accepted by the hub, which requires a permission") {
			return fmt.Errorf("got %q: %w", out, err)
		}
		return nil
	})
}

// testWithoutTheGate turns the gate off: the server goes, and what it showed stays.
func testWithoutTheGate(t *testing.T, c *harness.Cluster, p *programs.Programs) {
	cm := c.ReadHub(t)
	before := cm.DeepCopy()
	cm.Spec.RegistrationConfiguration.FeatureGates = nil
	if err := c.Client.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	apiService := &unstructured.Unstructured{}
	apiService.SetAPIVersion("apiregistration.k8s.io/v1")
	apiService.SetKind("APIService")
	here := client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: "cluster-manager-apiserver"}
	for object, key := range map[client.Object]client.ObjectKey{
		apiService:            {Name: "v1alpha1.cluster.karmada.io"},
		apiService.DeepCopy(): {Name: "v1alpha1.work.karmada.io"},
		&appsv1.Deployment{}:  here, &corev1.Service{}: here, &policyv1.PodDisruptionBudget{}: here,
		&corev1.ServiceAccount{}: {Namespace: here.Namespace, Name: "apiserver-sa"},
	} {
		c.IsGone(t, object, key)
	}
	p.StopProgram("apiserver")
	c.Eventually(t, "there is no Cluster API", func(ctx context.Context) error {
		err := c.Client.List(ctx, clustersList())
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("want that it is not known: %w", err)
		}
		return c.IsDegraded(ctx, "")
	})
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "member2"}, connection); err != nil || connection.Spec.Region != "here" {
		t.Errorf("what is left of the ClusterConnection is %+v: %v", connection.Spec, err)
	}
}

func clustersList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cluster.karmada.io/v1alpha1")
	list.SetKind("ClusterList")
	return list
}
