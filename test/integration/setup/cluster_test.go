// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup tests that the command line makes a cluster a hub, upgrades it
// and removes it again, together with the operator that it installs.
package setup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/operators/clustermanager"
)

// lookEvery is how often the cluster looks at what there is to do.
const lookEvery = 50 * time.Millisecond

// cluster is a cluster whose nodes and controllers are played: Deployments are
// rolled out at once, namespaces end when they are deleted, and the pod of the
// operator is the operator itself, in this process.
type cluster struct {
	client     client.Client
	config     *rest.Config
	kubeconfig string

	// image is that of the operator that runs, and stop ends it.
	image string
	stop  func()
}

func newCluster(t *testing.T, options ...func(*envtest.Environment)) *cluster {
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
	c := &cluster{config: restConfig, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), stop: func() {}}
	if c.client, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
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
		c.stop()
	})
	return c
}

// capstan runs a command and returns its exit code and what it prints.
func (c *cluster) capstan(t *testing.T, args ...string) (int, string) {
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
func (c *cluster) play(ctx context.Context, t *testing.T) {
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

func (c *cluster) rollOut(ctx context.Context) error {
	list := &appsv1.DeploymentList{}
	if err := c.client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if err := c.client.Status().Update(ctx, d); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) endNamespaces(ctx context.Context) error {
	list := &corev1.NamespaceList{}
	if err := c.client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		namespace := &list.Items[i]
		if namespace.DeletionTimestamp.IsZero() {
			continue
		}
		err := c.client.DeleteAllOf(ctx, &corev1.ServiceAccount{}, client.InNamespace(namespace.Name))
		namespace.Spec.Finalizers = nil
		err = errors.Join(err, client.IgnoreNotFound(c.client.SubResource("finalize").Update(ctx, namespace)))
		if err != nil {
			return err
		}
	}
	return nil
}

// runOperator runs the operator that the Deployment wants, and none without one.
func (c *cluster) runOperator(ctx context.Context, t *testing.T) error {
	wanted := ""
	deployment := &appsv1.Deployment{}
	err := c.client.Get(ctx, install.ClusterManagerOperator().DeploymentKey(), deployment)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		wanted = install.OptionsOf(deployment).Image
	}
	if wanted == c.image {
		return nil
	}
	c.stop()
	c.image, c.stop = "", func() {}
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
	c.image, c.stop = wanted, func() {
		cancel()
		ended.Wait()
	}
	return nil
}

// operator returns the operator as it runs in its pod: with the rights that the
// command line has given to its ServiceAccount.
func (c *cluster) operator(image string) (ctrl.Manager, error) {
	restricted := rest.CopyConfig(c.config)
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
		Scheme: c.client.Scheme(), Cache: caching, Metrics: metricsserver.Options{BindAddress: "0"},
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
