// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/checks"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

const (
	// startTimeout limits each step of the start of a cluster.
	startTimeout = 3 * time.Minute
	// requestTimeout limits a request to an API server.
	requestTimeout = 10 * time.Second
	// pollInterval is the time between two looks at whether a step is done.
	pollInterval = 200 * time.Millisecond
	// parallelStarts is how many clusters start at a time: more would only
	// make each other slow.
	parallelStarts = 4
)

// startClusters starts clusters that may or may not run, side by side.
func startClusters(ctx context.Context, clusters []*cluster) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, c := range clusters {
		if err := c.prepare(); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		// Of an etcd that several clusters share, the first starts it.
		if err := startDaemons(cancel, c.etcd().Daemon(c.lab.place.program())); err != nil {
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
	for _, dir := range []string{c.path("logs"), c.etcd().Dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := (credentials{c}).ensure(); err != nil {
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
	if err := startDaemons(cancel, components{c}.apiServer()); err != nil {
		return err
	}
	if err := await(ctx, "the API server", checks.APIServerReady(client)); err != nil {
		return err
	}
	c.lab.progress.Step("%s: API server ready", c.Name)
	if err := startDaemons(cancel, components{c}.controllerManager()); err != nil {
		return err
	}
	if !c.Nodeless {
		if err := (node{c}).start(ctx, cancel, client); err != nil {
			return err
		}
	}
	if err := await(ctx, "the controllers", checks.DefaultAccountExists(client)); err != nil {
		return err
	}
	c.lab.progress.Step("%s: up at %s", c.Name, c.url())
	return nil
}

// client returns a client of the cluster's API server.
func (c *cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.componentKubeconfig(adminPair))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.Timeout = requestTimeout
	config.Proxy = checks.NoProxy
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
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
