// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a cluster on which capstan sets up a hub: its nodes and controllers are
// played, and the pod of the operator is the operator, in this process.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager"
	controlplane "github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// patience only decides how long a failure takes.
const patience = 2 * time.Minute

// JoinCluster makes a cluster that has joined, with what its agent reports.
func (c *Cluster) JoinCluster(t testing.TB, name string, mode fleetv1alpha1.SyncMode) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	c.Eventually(t, "the hub's webhooks accept "+name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Client.Create(ctx, mc.DeepCopy()))
	})
	c.Eventually(t, name+" has joined", func(ctx context.Context) error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		mc.Status.Conditions = slices.DeleteFunc(mc.Status.Conditions, func(m metav1.Condition) bool { return m.Type == clusterv1.ManagedClusterConditionAvailable })
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "ManagedClusterAvailable", LastTransitionTime: metav1.Now(),
		})
		return c.Client.Status().Update(ctx, mc)
	})
	c.Eventually(t, name+" has a ClusterConnection", func(ctx context.Context) error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, connection); err != nil {
			return err
		}
		connection.Spec.SyncMode, connection.Spec.Region = mode, "here"
		if mode == fleetv1alpha1.SyncModePush {
			connection.Spec.APIEndpoint = "https://" + name + ".example.com"
		}
		if err := c.Client.Update(ctx, connection); err != nil {
			return err
		}
		connection.Status.KubernetesVersion = "v1.36.3"
		return c.Client.Status().Update(ctx, connection)
	})
}

// IsGone waits until an object is gone.
func (c *Cluster) IsGone(t testing.TB, object client.Object, key client.ObjectKey) {
	t.Helper()
	c.Eventually(t, fmt.Sprintf("%T %s is gone", object, key), func(ctx context.Context) error {
		err := c.Client.Get(ctx, key, object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// IsDegraded returns an error unless the condition of the Cluster API has the
// reason; "" is no condition.
func (c *Cluster) IsDegraded(ctx context.Context, reason string) error {
	cm := &operatorv1.ClusterManager{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: "cluster-manager"}, cm); err != nil {
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

// RunKubectl runs kubectl as the administrator, and returns what it prints.
func (c *Cluster) RunKubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+filepath.Dir(c.kubeconfig))
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Eventually tries again until there is no error.
func (c *Cluster) Eventually(t testing.TB, what string, try func(context.Context) error) {
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

// lookEvery is how often the cluster looks at what there is to do.
const lookEvery = 50 * time.Millisecond

// Cluster is a cluster whose nodes and controllers are played: Deployments are
// rolled out at once, namespaces end when they are deleted, and the pod of the
// operator is the operator itself, in this process.
type Cluster struct {
	Client      client.Client
	AdminConfig *rest.Config
	kubeconfig  string

	// image is that of the operator that runs, and stop ends it.
	image        string
	StopOperator func()
}

// NewCluster starts a cluster that has nothing of ours.
func NewCluster(t testing.TB, servers *env.Servers, options ...func(*envtest.Environment)) *Cluster {
	t.Helper()
	start := servers.Start
	if len(options) > 0 { // they have files of this test
		start = env.Start
	}
	environment, restConfig := start(t, options...)
	scheme, err := clustermanager.NewClusterManagerScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{AdminConfig: restConfig, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), StopOperator: func() {}}
	if c.Client, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var played sync.WaitGroup
	played.Go(func() { c.play(ctx, t) })
	t.Cleanup(func() {
		cancel()
		played.Wait()
		c.StopOperator()
	})
	return c
}

// RunCapstan runs a command and returns its exit code and what it prints.
func (c *Cluster) RunCapstan(t testing.TB, args ...string) (int, string) {
	t.Helper()
	t.Setenv("KUBECONFIG", c.kubeconfig)
	var out bytes.Buffer
	code := cli.RunCommandLine(t.Context(), cli.CommandLine{
		As: "capstan", Args: args, Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Clock: clock.RealClock{},
	})
	t.Logf("capstan %s: exit code %d\n%s", strings.Join(args, " "), code, out.String())
	return code, out.String()
}

// play does what nodes and the controller manager do, until the context ends.
func (c *Cluster) play(ctx context.Context, t testing.TB) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := errors.Join(c.rollOut(ctx), c.endNamespaces(ctx), c.runOperator(ctx, t))
		if err != nil && ctx.Err() == nil {
			t.Logf("playing the cluster: %v", err)
		}
	}
}

func (c *Cluster) rollOut(ctx context.Context) error {
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if err := c.Client.Status().Update(ctx, d); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) endNamespaces(ctx context.Context) error {
	list := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		namespace := &list.Items[i]
		if namespace.DeletionTimestamp.IsZero() {
			continue
		}
		err := c.Client.DeleteAllOf(ctx, &corev1.ServiceAccount{}, client.InNamespace(namespace.Name))
		namespace.Spec.Finalizers = nil
		err = errors.Join(err, client.IgnoreNotFound(c.Client.SubResource("finalize").Update(ctx, namespace)))
		if err != nil {
			return err
		}
	}
	return nil
}

// runOperator runs the operator that the Deployment wants, and none without one.
func (c *Cluster) runOperator(ctx context.Context, t testing.TB) error {
	wanted := ""
	deployment := &appsv1.Deployment{}
	err := c.Client.Get(ctx, install.ClusterManagerOperator().DeploymentKey(), deployment)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		wanted = install.OptionsOf(deployment).Image
	}
	if wanted == c.image {
		return nil
	}
	c.StopOperator()
	c.image, c.StopOperator = "", func() {}
	if wanted == "" {
		return nil
	}
	mgr, err := c.operator(wanted)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := mgr.Start(running); err != nil && running.Err() == nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	c.image, c.StopOperator = wanted, func() {
		cancel()
		ended.Wait()
	}
	return nil
}

// operator returns the operator as it runs in its pod: with the rights that the
// command line has given to its ServiceAccount.
func (c *Cluster) operator(image string) (ctrl.Manager, error) {
	restricted := rest.CopyConfig(c.AdminConfig)
	restricted.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:open-cluster-management:cluster-manager",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	options := clustermanager.OperatorOptions{
		Namespace: operatorv1.DefaultOperatorNamespace, Image: image, Version: version.SemanticVersion(),
		PullSecret: operatorv1.ImagePullSecret, ControlPlane: labels.Everything(),
	}
	caching, err := clustermanager.OperatorCacheOptions(options)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restricted, ctrl.Options{
		Scheme: c.Client.Scheme(), Cache: caching, Metrics: metricsserver.Options{BindAddress: "0"},
		// The operator after an upgrade is another process.
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, err
	}
	crds, err := config.HubCRDs()
	if err != nil {
		return nil, err
	}
	controller := clustermanager.NewClusterManagerController(clustermanager.ControllerDeps{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder(clustermanager.FieldOwner), CRDs: crds, Rules: config.Rules, Options: options,
	})
	return mgr, controller.SetupWithManager(mgr)
}

// MakeDedicated gives the hub what the operator of dedicated hubs puts into a new one. The Cluster
// API may read Secrets by that, and by nothing else.
func (c *Cluster) MakeDedicated(t testing.TB) {
	t.Helper()
	objects, err := controlplane.HubObjects(controlplane.Plane{Name: operatorv1.DefaultHubNamespace, Namespace: "host"}, c.AdminConfig.CAData)
	expect.NoError(t, err)
	_, err = render.NewApplier(c.Client, c.Client, fleetv1alpha1.ControlPlaneOperator).Apply(t.Context(), objects...)
	expect.NoError(t, err)
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	server := env.ServiceAccountReview(operatorv1.DefaultHubNamespace, fleetv1alpha1.APIServerServiceAccount)
	env.WaitAllowed(t.Context(), t, c.AdminConfig, server, karmadav1alpha1.SecretsNamespace, read, true)
}
