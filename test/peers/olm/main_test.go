// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package olm installs, upgrades and removes both operators with OLM itself, on
// clusters of the lab. Its parts and the images come from `make test-olm`.
package olm

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

const (
	hubName    = "hub"
	memberName = "member1"
)

// theLab is the lab of this run.
var theLab *lab

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "olm: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("real clusters need root: run `sudo make test-olm`")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("../../..")
	if err != nil {
		return 0, err
	}
	dir, keep := os.Getenv("E2E_DIR"), true
	if dir == "" {
		keep = false
		if dir, err = os.MkdirTemp("/var/lib", "capstan-olm-"); err != nil {
			return 0, err
		}
	}
	theLab = &lab{root: root, dir: dir, began: time.Now()}
	if !keep {
		defer func() {
			// The context may be done: the clusters have to go all the same.
			_, downErr := theLab.run(context.WithoutCancel(ctx), "down")
			err = errors.Join(err, downErr, os.RemoveAll(dir))
		}()
	}
	if err := theLab.up(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// lab drives the executable of test/lab.
type lab struct {
	root, dir string
	began     time.Time
}

func (l *lab) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, l.root, l.bin("lab"), append([]string{"--dir", l.dir}, args...)...)
}

func (l *lab) bin(name string) string { return filepath.Join(l.root, "test/lab/bin", name) }

// made is where `make test-olm` puts what this test needs.
func (l *lab) made(name string) string { return l.built("olm/" + name) }

// built is where make puts programs and images.
func (l *lab) built(name string) string { return filepath.Join(l.root, "bin", name) }

func (l *lab) kubeconfig() string { return filepath.Join(l.dir, "e2e-kubeconfig") }

func (l *lab) up(ctx context.Context) error {
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
	l.say("two clusters of the lab are up")
	return l.load(ctx, l.built("released/v"+first+"/bin/capstan-image.tar"), l.built("next/capstan-image.tar"), l.made("olm.tar"))
}

func (l *lab) load(ctx context.Context, archives ...string) error {
	_, err := l.run(ctx, append([]string{"load-image"}, archives...)...)
	return err
}

// say prints a line of the story, with the seconds since it began.
func (l *lab) say(format string, args ...any) {
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
