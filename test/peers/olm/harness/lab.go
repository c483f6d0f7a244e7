// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness has the clusters of a lab, OLM in them, and catalogs with bundles of Capstan. Its parts and the images
// come from `make test-olm`.
package harness

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
	"time"
)

// The clusters of the lab.
const (
	hubName    = "hub"
	memberName = "member1"
)

// Lab drives the executable of test/lab.
type Lab struct {
	root, dir string
	began     time.Time
}

// NewLab starts two clusters, which go with the test, also if it is interrupted; E2E_DIR is a folder whose clusters stay.
func NewLab(t *testing.T) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("real clusters need root: run `sudo make test-olm`")
	}
	// Who interrupts the test ends the programs that it runs, and with them the test.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{root: root, dir: os.Getenv("E2E_DIR"), began: time.Now()}
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("/var/lib", "capstan-olm-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, err := l.run(context.WithoutCancel(ctx), "down")
			if err := errors.Join(err, os.RemoveAll(l.dir)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := l.up(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

// Hub is the cluster of the hub.
func (l *Lab) Hub() Cluster { return Cluster{Name: hubName, Lab: l} }

// Member is the cluster that joins it.
func (l *Lab) Member() Cluster { return Cluster{Name: memberName, Lab: l} }

func (l *Lab) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, l.root, l.bin("lab"), append([]string{"--dir", l.dir}, args...)...)
}

// RunMake runs targets of make in the tree, for the clusters of the lab.
func (l *Lab) RunMake(t *testing.T, args ...string) {
	t.Helper()
	all := append([]string{"KUBECONFIG=" + l.kubeconfig(), "make", "--no-print-directory", "KUBECTL=" + l.bin("kubectl")}, args...)
	if _, err := output(t.Context(), l.root, "env", all...); err != nil {
		t.Fatal(err)
	}
}

func (l *Lab) bin(name string) string { return filepath.Join(l.root, "test/lab/bin", name) }

// MadePath is where `make test-olm` puts what this test needs.
func (l *Lab) MadePath(name string) string { return l.built("olm/" + name) }

// built is where make puts programs and images.
func (l *Lab) built(name string) string { return filepath.Join(l.root, "bin", name) }

func (l *Lab) kubeconfig() string { return filepath.Join(l.dir, "e2e-kubeconfig") }

func (l *Lab) up(ctx context.Context) error {
	if _, err := l.run(ctx, "up", "--install-packages", "--name", hubName, "--name", memberName); err != nil {
		return err
	}
	kubeconfig, err := l.run(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	l.Say("two clusters of the lab are up")
	return l.load(ctx, l.built("released/v"+First+"/bin/capstan-image.tar"), l.built("next/capstan-image.tar"), l.MadePath("olm.tar"))
}

func (l *Lab) load(ctx context.Context, archives ...string) error {
	_, err := l.run(ctx, append([]string{"load-image"}, archives...)...)
	return err
}

// Say prints a line of the story, with the seconds since it began.
func (l *Lab) Say(format string, args ...any) {
	fmt.Printf("%4.0fs  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// output runs a program and returns what it printed to standard output. The
// error has what it printed to standard error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
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
