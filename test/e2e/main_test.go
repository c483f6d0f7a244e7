// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The clusters of the lab. The all-in-one installation has one to itself.
const (
	hubName      = "hub"
	memberName   = "member1"
	allInOneName = "single"
)

// signingDuration is the lifetime of the certificates that the lab's clusters
// sign, so that renewals happen while the tests run. The signer dates them
// back by five minutes, so an agent renews about two minutes after it got one.
const signingDuration = "4m"

// theLab is the lab of this run. Tests get clusters from it.
var theLab *lab

func TestMain(m *testing.M) {
	clusters := flag.String("clusters", strings.Join([]string{hubName, memberName, allInOneName}, ","), "the clusters that the lab starts")
	flag.Parse()
	code, err := runAll(m, *clusters)
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M, clusters string) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("real clusters need root: run `sudo make test-e2e`")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	dir, keep := os.Getenv("E2E_DIR"), true
	if dir == "" {
		keep = false
		if dir, err = os.MkdirTemp("/var/lib", "capstan-e2e-"); err != nil {
			return 0, err
		}
	}
	theLab = &lab{root: root, dir: dir, image: imageName(), clusters: strings.Split(clusters, ",")}
	if !keep {
		defer func() {
			// The context may be done: the clusters have to go all the same.
			_, downErr := theLab.run(context.WithoutCancel(ctx), "down")
			err = errors.Join(err, downErr, os.RemoveAll(dir))
		}()
	}
	if err := theLab.up(ctx, theLab.clusters...); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// imageName is the image that `make image` made. The Makefile passes its name.
func imageName() string {
	if name := os.Getenv("IMAGE_NAME"); name != "" {
		return name
	}
	return "quay.io/capstan-io/capstan:0.1.0"
}

// lab drives the executable of test/lab.
type lab struct {
	root, dir, image string
	clusters         []string
}

func (l *lab) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, l.root, nil, l.bin("lab"), append([]string{"--dir", l.dir}, args...)...)
}

func (l *lab) bin(name string) string { return filepath.Join(l.root, "test/lab/bin", name) }

func (l *lab) kubeconfig() string { return filepath.Join(l.dir, "e2e-kubeconfig") }

func (l *lab) up(ctx context.Context, names ...string) error {
	args := []string{"up", "--install-packages", "--signing-duration", signingDuration}
	for _, name := range names {
		args = append(args, "--name", name)
	}
	if _, err := l.run(ctx, args...); err != nil {
		return err
	}
	kubeconfig, err := l.run(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	_, err = l.run(ctx, "load-image", filepath.Join(l.root, "bin/capstan-image.tar"))
	return err
}

// output runs a program and returns what it printed to standard output. The
// error has what it printed to standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
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
