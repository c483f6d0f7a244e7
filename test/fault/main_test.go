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

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// long makes outages last minutes instead of seconds, and -short less of everything.
var long = flag.Bool("long", false, "make outages last minutes")

// theFleet is what all tests break.
var theFleet *fleet.Fleet

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
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
	theFleet, err = fleet.Up(ctx, fleet.Options{Root: root, Dir: dir, Members: 1, HubApart: true})
	defer func() {
		err = errors.Join(err, theFleet.Down(context.WithoutCancel(ctx), err == nil && code == 0))
	}()
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}
