// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/test/fault/harness"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// long makes outages last minutes instead of seconds, and -short less of everything.
var long = flag.Bool("long", false, "make outages last minutes")

// seed is given to replay a run: what is chosen at random, is chosen again.
// When the agent and the API servers do what is theirs is not.
var seed = flag.Uint64("seed", 0, "seed of all that is chosen at random; 0 takes a new one")

// worlds are on the fleet that all tests break.
var worlds = &harness.WorldMaker{}

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	worlds.Seed = *seed
	log.SetLogger(logr.Discard())
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "fault: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("clusters need root: run `sudo make test-fault`")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	dir := os.Getenv("FAULT_DIR")
	if dir == "" {
		dir = "/var/lib/capstan-fault"
	}
	worlds.Fleet, err = fleet.Up(ctx, fleet.Options{Root: root, Dir: dir, Members: 1, HubApart: true})
	defer func() {
		err = errors.Join(err, worlds.Fleet.Down(context.WithoutCancel(ctx), err == nil && code == 0))
	}()
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}
