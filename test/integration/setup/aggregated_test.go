// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
)

// patience only decides how long a failure takes.
const patience = 2 * time.Minute

// TestClusterAPI is a hub with the gate AggregatedAPI as users of Karmada see it:
// kubectl, the hub's API server, and what the operator has installed, with the
// certificates and permissions that it made.
func TestClusterAPI(t *testing.T) {
	c := newCluster(t, env.WithAggregation(t), env.WithAggregatorRouting)
	p := startPrograms(t, c)
	if code, _ := c.capstan(t, "init", "--image", "example.com/capstan:1", "--feature-gates", "AggregatedAPI=true"); code != exit.OK {
		t.Fatalf("exit code %d", code)
	}
	p.run(t)
	c.until(t, "the Cluster API is available", func(ctx context.Context) error {
		return c.degraded(ctx, "APIServerFunctional")
	})
	c.join(t, "member1", fleetv1alpha1.SyncModePull)
	c.join(t, "member2", fleetv1alpha1.SyncModePush)

	t.Run("clusters of both modes", c.listed)
	t.Run("a label, a taint and the deletion reach the ManagedCluster", c.written)
	t.Run("nobody gets more by it", c.confined)
	c.dedicate(t)
	t.Run("samples of Karmada apply on a dedicated hub", c.samples)
	t.Run("karmadactl joins a cluster that has nothing of ours, and unjoins it", func(t *testing.T) { c.joinedByKarmadactl(t, p) })
	t.Run("without the gate", func(t *testing.T) { c.gateOff(t, p) })
}

// join makes a cluster that has joined, with what its agent reports.
func (c *cluster) join(t *testing.T, name string, mode fleetv1alpha1.SyncMode) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	c.until(t, "the hub's webhooks accept "+name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.client.Create(ctx, mc.DeepCopy()))
	})
	c.until(t, name+" has joined", func(ctx context.Context) error {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		mc.Status.Conditions = slices.DeleteFunc(mc.Status.Conditions, func(m metav1.Condition) bool { return m.Type == clusterv1.ManagedClusterConditionAvailable })
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "ManagedClusterAvailable", LastTransitionTime: metav1.Now(),
		})
		return c.client.Status().Update(ctx, mc)
	})
	c.until(t, name+" has a ClusterConnection", func(ctx context.Context) error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, connection); err != nil {
			return err
		}
		connection.Spec.SyncMode, connection.Spec.Region = mode, "here"
		if mode == fleetv1alpha1.SyncModePush {
			connection.Spec.APIEndpoint = "https://" + name + ".example.com"
		}
		if err := c.client.Update(ctx, connection); err != nil {
			return err
		}
		connection.Status.KubernetesVersion = "v1.36.3"
		return c.client.Status().Update(ctx, connection)
	})
}

// listed looks at the clusters as kubectl shows them.
func (c *cluster) listed(t *testing.T) {
	c.until(t, "kubectl shows both clusters", func(ctx context.Context) error {
		out, err := c.kubectl(ctx, "get", "clusters", "-o", "wide")
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

// written changes a cluster as users of Karmada do.
func (c *cluster) written(t *testing.T) {
	for _, args := range [][]string{
		{"label", "cluster", "member1", "team=fleet"},
		{"patch", "cluster", "member1", "--type=merge", "-p", `{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}}`},
		{"wait", "--for=condition=Ready", "cluster/member1"},
	} {
		if _, err := c.kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	c.until(t, "the ManagedCluster has what was written", func(ctx context.Context) error {
		mc := &clusterv1.ManagedCluster{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: "member1"}, mc); err != nil {
			return err
		}
		if len(mc.Spec.Taints) != 1 || mc.Spec.Taints[0].Key != "gpu" || mc.Labels["team"] != "fleet" {
			return fmt.Errorf("it has labels %v and taints %v", mc.Labels, mc.Spec.Taints)
		}
		return nil
	})
	if _, err := c.kubectl(t.Context(), "delete", "cluster", "member1", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	c.gone(t, &clusterv1.ManagedCluster{}, client.ObjectKey{Name: "member1"})
}

// gone waits until an object is gone.
func (c *cluster) gone(t *testing.T, object client.Object, key client.ObjectKey) {
	t.Helper()
	c.until(t, fmt.Sprintf("%T %s is gone", object, key), func(ctx context.Context) error {
		err := c.client.Get(ctx, key, object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// confined lets a user who may write Clusters, and nothing else, accept one.
func (c *cluster) confined(t *testing.T) {
	name := metav1.ObjectMeta{Name: "clusters-only"}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name.Name}},
		},
	} {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	content := `{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","metadata":{"name":"own"},"spec":{"syncMode":"Pull"}}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c.until(t, "a user who may not accept clusters makes none", func(ctx context.Context) error {
		out, err := c.kubectl(ctx, "create", "-f", file, "--as", name.Name)
		if err == nil || !strings.Contains(out, "a Cluster that is created is accepted by the hub, which requires a permission") {
			return fmt.Errorf("got %q: %w", out, err)
		}
		return nil
	})
}

// gateOff turns the gate off: the server goes, and what it showed stays.
func (c *cluster) gateOff(t *testing.T, p *programs) {
	cm := c.hub(t)
	before := cm.DeepCopy()
	cm.Spec.RegistrationConfiguration.FeatureGates = nil
	if err := c.client.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
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
		c.gone(t, object, key)
	}
	p.stop("apiserver")
	c.until(t, "there is no Cluster API", func(ctx context.Context) error {
		err := c.client.List(ctx, clustersList())
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("want that it is not known: %w", err)
		}
		return c.degraded(ctx, "")
	})
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := c.client.Get(t.Context(), client.ObjectKey{Name: "member2"}, connection); err != nil || connection.Spec.Region != "here" {
		t.Errorf("what is left of the ClusterConnection is %+v: %v", connection.Spec, err)
	}
}

func clustersList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cluster.karmada.io/v1alpha1")
	list.SetKind("ClusterList")
	return list
}

// degraded returns an error unless the condition of the Cluster API has the
// reason; "" is no condition.
func (c *cluster) degraded(ctx context.Context, reason string) error {
	cm := &operatorv1.ClusterManager{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: "cluster-manager"}, cm); err != nil {
		return err
	}
	got := metav1.Condition{}
	for _, condition := range cm.Status.Conditions {
		if condition.Type == operatorv1.ClusterManagerConditionHubAPIServerDegraded {
			got = condition
		}
	}
	if got.Reason != reason {
		return fmt.Errorf("%s is %q: %s", operatorv1.ClusterManagerConditionHubAPIServerDegraded, got.Reason, got.Message)
	}
	return nil
}

// kubectl runs kubectl as the administrator, and returns what it prints.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+filepath.Dir(c.kubeconfig))
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// until tries again until there is no error.
func (c *cluster) until(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		case <-time.After(lookEvery):
		}
	}
}
