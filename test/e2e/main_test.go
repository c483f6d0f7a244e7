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
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// The clusters of the lab. The all-in-one installation has one to itself.
const (
	hubName      = "hub"
	memberName   = "member1"
	allInOneName = "single"
)

// theLab is the lab of this run. Tests get clusters from it.
var theLab *harness.Lab

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
	theLab = &harness.Lab{Root: root, Dir: dir, Image: imageName(), Clusters: strings.Split(clusters, ",")}
	if !keep {
		defer func() {
			// The context may be done: the clusters have to go all the same.
			_, downErr := theLab.RunLab(context.WithoutCancel(ctx), "down")
			err = errors.Join(err, downErr, os.RemoveAll(dir))
		}()
	}
	if err := theLab.StartClusters(ctx, theLab.Clusters...); err != nil {
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
