// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command capstan manages the clusters of a Capstan hub from a user's machine.
// Under the name kubectl-capstan it is a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials of cloud providers in kubeconfigs
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/internal/cli"
)

func main() {
	os.Exit(runCommandLine())
}

func runCommandLine() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What matters to the user is in the errors; the logs of libraries are not
	// for them. Without a logger, controller-runtime complains after half a minute.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	return cli.RunCommandLine(ctx, cli.CommandLine{
		As:      os.Args[0],
		Args:    os.Args[1:],
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:   clock.RealClock{},
	})
}
