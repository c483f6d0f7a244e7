// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/capstan-io/capstan/test/lab/internal/checks"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

// node is the node of a cluster that has one.
type node struct{ cluster *cluster }

// start starts what a node consists of, and waits until it takes pods.
func (n node) start(ctx context.Context, ended context.CancelCauseFunc, client kubernetes.Interface) error {
	c, daemons := n.cluster, components(n)
	if err := n.writeFiles(); err != nil {
		return err
	}
	if err := startDaemons(ended, daemons.containerd(), daemons.scheduler()); err != nil {
		return err
	}
	if err := await(ctx, "containerd", checks.Listens("unix", c.path("containerd.sock"))); err != nil {
		return err
	}
	if err := n.loadBundledImages(ctx); err != nil {
		return err
	}
	if err := n.applyAddons(ctx); err != nil {
		return err
	}
	c.lab.progress.Step("%s: containerd ready", c.Name)

	address := c.address().Addr().String()
	running, err := daemon.IsRunning(daemons.kubelet())
	if err != nil {
		return err
	}
	var since time.Time
	if !running {
		since = time.Now() // What the node said before does not count.
	}
	if err := startDaemons(ended, daemons.kubelet(), daemons.proxy(), daemons.dns(), daemons.provisioner()); err != nil {
		return err
	}
	if err := await(ctx, "kube-proxy", checks.Healthy(fmt.Sprintf("http://%s:10256/healthz", address))); err != nil {
		return err
	}
	if err := await(ctx, "CoreDNS", checks.Listens("tcp", address+":53")); err != nil {
		return err
	}
	return await(ctx, "the node", checks.NodeReady(client, c.node(), since))
}

// applyAddons creates the objects that belong to every cluster with a node.
func (n node) applyAddons(ctx context.Context) error {
	c := n.cluster
	cmd := exec.CommandContext(ctx, c.lab.place.program())
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

// loadBundledImages loads the images that were built along with this program.
func (n node) loadBundledImages(ctx context.Context) error {
	archives, err := filepath.Glob(filepath.Join(n.cluster.lab.place.bin, "images", "*.tar"))
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	if len(archives) == 0 {
		return errors.New("there are no images beside the executable: build them with make")
	}
	for _, archive := range archives {
		if err := n.loadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

func (n node) loadImage(ctx context.Context, archive string) error {
	// By default it gives up on a containerd that has not answered in ten seconds, as one
	// does not on a starved host.
	cmd := exec.CommandContext(ctx, "ctr", "--connect-timeout", "2m", "--address", n.cluster.path("containerd.sock"), "--namespace", "k8s.io",
		"images", "import", archive)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load image %s into cluster %s: %w: %s", archive, n.cluster.Name, err, output)
	}
	return nil
}
