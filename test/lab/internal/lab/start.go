// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

const (
	// startTimeout limits each step of the start of a cluster.
	startTimeout = 3 * time.Minute
	// pollInterval is the time between two looks at whether a step is done.
	pollInterval = 200 * time.Millisecond
	// parallelStarts is how many clusters start at a time: more would only
	// make each other slow.
	parallelStarts = 4
)

// startClusters starts clusters that may or may not run, side by side.
func (l *Lab) startClusters(ctx context.Context, clusters []*cluster) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, c := range clusters {
		if err := c.prepare(); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		// Of an etcd that several clusters share, the first starts it.
		if err := startDaemons(cancel, c.etcd().daemon(l.program())); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelStarts)
	for _, c := range clusters {
		group.Go(func() error {
			if err := c.start(ctx); err != nil {
				return fmt.Errorf("cluster %s: %w", c.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// prepare makes all that the daemons need.
func (c *cluster) prepare() error {
	for _, dir := range []string{c.path("logs"), c.etcd().dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := c.ensureCredentials(); err != nil {
		return err
	}
	group, err := cgroup.New(c.group())
	if err != nil {
		return err
	}
	if err := group.Create(); err != nil {
		return err
	}
	return c.namespace().Ensure(c.lab.bridge())
}

// start starts the daemons that do not run, and waits until the cluster is fit
// for use.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := startDaemons(cancel, c.apiServer()); err != nil {
		return err
	}
	if err := await(ctx, "the API server", apiServerReady(client)); err != nil {
		return err
	}
	c.lab.progress.Step("%s: API server ready", c.Name)
	if err := startDaemons(cancel, c.controllerManager()); err != nil {
		return err
	}
	if !c.Nodeless {
		if err := c.startNode(ctx, cancel, client); err != nil {
			return err
		}
	}
	if err := await(ctx, "the controllers", defaultAccountExists(client)); err != nil {
		return err
	}
	c.lab.progress.Step("%s: up at %s", c.Name, c.url())
	return nil
}

// startNode starts what a node consists of, and waits until it takes pods.
func (c *cluster) startNode(ctx context.Context, ended context.CancelCauseFunc, client kubernetes.Interface) error {
	if err := c.writeNodeFiles(); err != nil {
		return err
	}
	if err := startDaemons(ended, c.containerd(), c.scheduler()); err != nil {
		return err
	}
	if err := await(ctx, "containerd", listens("unix", c.path("containerd.sock"))); err != nil {
		return err
	}
	if err := c.loadBundledImages(ctx); err != nil {
		return err
	}
	if err := c.applyAddons(ctx); err != nil {
		return err
	}
	c.lab.progress.Step("%s: containerd ready", c.Name)

	address := c.address().Addr().String()
	running, err := daemon.IsRunning(c.kubelet())
	if err != nil {
		return err
	}
	var since time.Time
	if !running {
		since = time.Now() // What the node said before does not count.
	}
	if err := startDaemons(ended, c.kubelet(), c.proxy(), c.dns()); err != nil {
		return err
	}
	if err := await(ctx, "kube-proxy", healthy(fmt.Sprintf("http://%s:10256/healthz", address))); err != nil {
		return err
	}
	if err := await(ctx, "CoreDNS", listens("tcp", address+":53")); err != nil {
		return err
	}
	return await(ctx, "the node", nodeReady(client, c.node(), since))
}

// applyAddons creates the objects that belong to every cluster with a node.
func (c *cluster) applyAddons(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.lab.program())
	cmd.Args = []string{
		"kubectl", "apply", "--server-side", "--force-conflicts",
		"--kubeconfig", c.componentKubeconfig(adminPair),
		"--cache-dir", c.path("kubectl"),
		"--filename", c.path("addons.yaml"),
	}
	cmd.Env = []string{} // So that no proxy of the caller gets in the way.
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply addons: %w: %s", err, output)
	}
	return nil
}

// startDaemons starts those of the daemons that do not run. If one ends before
// this process does, ended is called with the reason.
func startDaemons(ended context.CancelCauseFunc, specs ...daemon.Spec) error {
	for _, spec := range specs {
		running, err := daemon.IsRunning(spec)
		if err != nil {
			return err
		}
		if running {
			continue
		}
		if err := daemon.Start(spec, ended); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a check finds nothing wrong.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var wrong error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		wrong = check(ctx)
		return wrong == nil, nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("wait for %s: %w", what, cause)
	}
	return fmt.Errorf("wait for %s: %w", what, cmp.Or(wrong, err))
}
