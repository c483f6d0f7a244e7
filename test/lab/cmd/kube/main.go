// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube is every Kubernetes program the lab runs, in one executable, and
// what makes their volumes.
//
// The program to run is taken from the name the executable was called by, so
// that a symbolic link named kube-apiserver is kube-apiserver. One executable
// instead of nine keeps the build short and lets the programs share memory
// pages.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "etcdutl":
		runEtcdutl()
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case "coredns":
		if err := runDNS(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "coredns: %v\n", err)
			os.Exit(1)
		}
	case "provisioner":
		if err := runProvisioner(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "provisioner: %v\n", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "kube: no program named %q in this executable\n", name)
		os.Exit(2)
	}
}
