// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The clusters of the lab, which are also the contexts of the kubeconfig.
const (
	hub    = "hub"
	member = "member1"
)

// theLab is the lab of this run.
var theLab *lab

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "install: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// runAll starts the clusters; with E2E_DIR they stay for the next run.
func runAll(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("real clusters need root: run `sudo make test-install`")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	dir := os.Getenv("E2E_DIR")
	theLab = &lab{root: root, dir: dir}
	if dir == "" {
		if theLab.dir, err = os.MkdirTemp("/var/lib", "capstan-install-"); err != nil {
			return 0, err
		}
		defer func() {
			// The context may be done: the clusters have to go all the same.
			_, downErr := theLab.run(context.WithoutCancel(ctx), "down")
			err = errors.Join(err, downErr, os.RemoveAll(theLab.dir))
		}()
	}
	for _, args := range [][]string{
		{"up", "--install-packages", "--name", hub, "--name", member},
		{"load-image", filepath.Join(root, "bin/capstan-image.tar")},
	} {
		if _, err := theLab.run(ctx, args...); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// lab drives the executable of test/lab.
type lab struct {
	root, dir string
}

func (l *lab) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.root, "test/lab/bin/lab"), append([]string{"--dir", l.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("lab %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// shell runs a script as a user does who has the repository, the programs and a
// kubeconfig with both clusters.
func (l *lab) shell(ctx context.Context, work, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = l.root
	image := os.Getenv("IMAGE_NAME")
	if image == "" {
		image = "quay.io/capstan-io/capstan:0.1.0"
	}
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(l.root, "bin")+":"+filepath.Join(l.root, "test/lab/bin")+":"+os.Getenv("PATH"),
		"KUBECONFIG="+filepath.Join(l.dir, "kubeconfig"), "KUBECTL="+filepath.Join(l.root, "test/lab/bin/kubectl"),
		"IMAGE_NAME="+image, "WORK="+work, "HUB_KUBECONFIG="+filepath.Join(work, "hub.kubeconfig"),
		"HELM_CACHE_HOME="+filepath.Join(work, "helm"), "HELM_CONFIG_HOME="+filepath.Join(work, "helm"), "HELM_DATA_HOME="+filepath.Join(work, "helm"),
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s\n%s", err, script, out)
	}
	return string(out), err
}
