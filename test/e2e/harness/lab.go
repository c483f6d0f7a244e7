// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// signingDuration is the lifetime of the certificates that the lab's clusters
// sign, so that renewals happen while the tests run. The signer dates them
// back by five minutes, so an agent renews about two minutes after it got one.
const signingDuration = "4m"

// Lab drives the executable of test/lab.
type Lab struct {
	Root, Dir, Image string
	Clusters         []string
}

// RunLab runs the lab, and returns what it prints.
func (l *Lab) RunLab(ctx context.Context, args ...string) (string, error) {
	return RunProgram(ctx, l.Root, nil, l.ToolPath("lab"), append([]string{"--dir", l.Dir}, args...)...)
}

// ToolPath returns the path of a program that the lab has built.
func (l *Lab) ToolPath(name string) string { return filepath.Join(l.Root, "test/lab/bin", name) }

// KubeconfigPath returns the kubeconfig of the clusters of the lab.
func (l *Lab) KubeconfigPath() string { return filepath.Join(l.Dir, "e2e-kubeconfig") }

// StartClusters starts clusters of the lab, which have the image.
func (l *Lab) StartClusters(ctx context.Context, names ...string) error {
	args := []string{"up", "--install-packages", "--signing-duration", signingDuration}
	for _, name := range names {
		args = append(args, "--name", name)
	}
	if _, err := l.RunLab(ctx, args...); err != nil {
		return err
	}
	kubeconfig, err := l.RunLab(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.KubeconfigPath(), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	_, err = l.RunLab(ctx, "load-image", filepath.Join(l.Root, "bin/capstan-image.tar"))
	return err
}

// RunProgram runs a program and returns what it printed to standard output. The
// error has what it printed to standard error.
func RunProgram(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return string(out), fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return string(out), nil
}
