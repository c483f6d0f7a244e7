// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// hubLab is the directory of the hub's lab, if it has one of its own.
const hubLab = "hub"

// Stop kills the API server of a cluster.
func (f *Fleet) Stop(ctx context.Context, cluster *Cluster) error {
	_, err := f.labOf(ctx, cluster.Name, "stop", cluster.Name, "--component", "kube-apiserver")
	return err
}

// Restart starts again what was stopped of a cluster, and waits until it is ready.
func (f *Fleet) Restart(ctx context.Context, cluster *Cluster) error {
	_, err := f.labOf(ctx, cluster.Name, "start", cluster.Name)
	return err
}

// StopControllers kills the controller manager of a cluster: its objects stay what
// is written to them. Restart starts it again.
func (f *Fleet) StopControllers(ctx context.Context, cluster *Cluster) error {
	_, err := f.labOf(ctx, cluster.Name, "stop", cluster.Name, "--component", "kube-controller-manager")
	return err
}

// SaveHub copies what the hub has stored, with the hub down meanwhile. The hub
// has to be in a lab of its own.
func (f *Fleet) SaveHub(ctx context.Context) error {
	return f.withHubStopped(ctx, func(data, saved string) error {
		return os.CopyFS(saved, os.DirFS(data))
	})
}

// RestoreHub makes the hub store what was saved, as after a disaster, and starts the
// programs of the hub again. Their watches would go on at a revision that etcd has only
// after as many writes as were lost, and report nothing until then; agents live with it.
func (f *Fleet) RestoreHub(ctx context.Context) error {
	err := f.withHubStopped(ctx, func(data, saved string) error {
		return errors.Join(os.RemoveAll(data), os.Rename(saved, data))
	})
	if err != nil {
		return err
	}
	for i, p := range f.HubProcesses {
		p.Stop()
		if f.HubProcesses[i], err = Start(context.WithoutCancel(ctx), f.Path("logs"), p.program); err != nil {
			return err
		}
	}
	return f.hubWorks(ctx)
}

func (f *Fleet) withHubStopped(ctx context.Context, do func(data, saved string) error) error {
	if _, err := f.labOf(ctx, hubName, "stop", hubName); err != nil {
		return err
	}
	etcd := f.Path(hubLab, "etcd")
	if err := f.endIn(ctx, etcd); err != nil {
		return err
	}
	if err := do(filepath.Join(etcd, "data"), f.Path("hub-saved")); err != nil {
		return fmt.Errorf("copying the data of the hub: %w", err)
	}
	_, err := f.labOf(ctx, hubName, "start", hubName)
	return err
}

// endIn ends the one process that works in the directory, which is the etcd of
// the lab, and waits until it is gone.
func (f *Fleet) endIn(ctx context.Context, dir string) error {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err != nil || at != dir { // processes come and go
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			return fmt.Errorf("reading %s: %w", link, err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
		return Poll(ctx, func(context.Context) (bool, error) {
			_, err := os.Readlink(link)
			return err != nil, nil
		})
	}
	return fmt.Errorf("no process works in %s", dir)
}
