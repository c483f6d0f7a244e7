// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command older is the API server and the controller manager of Kubernetes, one
// minor version before those of the lab, for tests that upgrade a control plane.
//
// It is a module of its own, since a module has one version of Kubernetes. The
// program to run is taken from the name the executable was called by.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "older: no program named %q in this executable\n", name)
		os.Exit(2)
	}
}
