// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-io/capstan/test/lab/internal/storage"
)

// runProvisioner is what makes the volumes of a cluster.
func runProvisioner(args []string) error {
	flags := flag.NewFlagSet("provisioner", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "file that tells how the cluster is reached")
	node := flags.String("node", "", "name of the cluster's node, which is this machine")
	dir := flags.String("dir", "", "directory for the volumes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return storage.Run(ctx, client, *node, *dir)
}
