// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strconv"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

// components describes the daemons of a cluster.
type components struct{ cluster *cluster }

// all are what the cluster consists of when it runs.
func (p components) all() []daemon.Spec {
	c := p.cluster
	daemons := []daemon.Spec{c.etcd().Daemon(c.lab.place.program()), p.apiServer(), p.controllerManager()}
	if !c.Nodeless {
		daemons = append(daemons, p.scheduler(), p.containerd(), p.kubelet(), p.proxy(), p.dns(), p.provisioner())
	}
	return daemons
}

// frugal makes a program collect garbage more often than it would: it spares a
// fifth of the memory of an API server for little time. No flag of an API
// server spares any worth mentioning.
const frugal = "GOGC=50"

// component returns a program of Kubernetes as a daemon of the cluster.
func (p components) component(name string, args ...string) daemon.Spec {
	c := p.cluster
	var env []string
	if c.Nodeless {
		env = append(env, frugal)
	}
	return daemon.Spec{
		Name:      name,
		Program:   c.lab.place.program(),
		Args:      args,
		Env:       env,
		Dir:       c.path(),
		Namespace: c.namespace().Name,
		Group:     c.daemonGroup(),
		Log:       c.logFile(name),
	}
}

func (p components) apiServer() daemon.Spec {
	c := p.cluster
	args := []string{
		"--etcd-servers=" + c.etcd().URL(),
		"--etcd-prefix=" + c.etcdPrefix(),
		"--advertise-address=" + c.address().Addr().String(),
		"--service-cluster-ip-range=" + c.serviceCIDR().String(),
		"--allow-privileged",
		// Benchmarks look where the time of a nodeless cluster goes.
		"--profiling=" + strconv.FormatBool(c.Nodeless),

		"--tls-cert-file=" + c.certFile(apiServerPair),
		"--tls-private-key-file=" + c.keyFile(apiServerPair),
		"--client-ca-file=" + c.certFile(authorityPair),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",

		// The issuer is the server's address, so that clusters can tell the
		// tokens of one another apart and verify them.
		"--service-account-issuer=" + c.url(),
		"--service-account-jwks-uri=" + c.url() + "/openid/v1/jwks",
		"--api-audiences=" + c.url() + ",https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + c.certFile(serviceAccountPair),
		"--service-account-signing-key-file=" + c.keyFile(serviceAccountPair),

		"--requestheader-client-ca-file=" + c.certFile(frontProxyAuthorityPair),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.certFile(frontProxyPair),
		"--proxy-client-key-file=" + c.keyFile(frontProxyPair),

		"--kubelet-certificate-authority=" + c.certFile(authorityPair),
		"--kubelet-client-certificate=" + c.certFile(kubeletClientPair),
		"--kubelet-client-key=" + c.keyFile(kubeletClientPair),
		"--kubelet-preferred-address-types=InternalIP",
	}
	return p.component("kube-apiserver", args...)
}

func (p components) controllerManager() daemon.Spec {
	c := p.cluster
	args := []string{
		"--kubeconfig=" + c.componentKubeconfig(controllerManagerPair),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		// With the default rate it would take five seconds only to get the
		// credentials of all controllers.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--leader-elect=false",
		"--profiling=false",
		"--use-service-account-credentials",
		"--root-ca-file=" + c.certFile(authorityPair),
		"--service-account-private-key-file=" + c.keyFile(serviceAccountPair),
		"--cluster-signing-cert-file=" + c.certFile(authorityPair),
		"--cluster-signing-key-file=" + c.keyFile(authorityPair),
		"--allocate-node-cidrs",
		"--cluster-cidr=" + c.podCIDR().String(),
		"--service-cluster-ip-range=" + c.serviceCIDR().String(),
	}
	if duration := c.SigningDuration.Duration; duration != 0 {
		args = append(args, "--cluster-signing-duration="+duration.String())
	}
	return p.component("kube-controller-manager", args...)
}

func (p components) scheduler() daemon.Spec {
	c := p.cluster
	return p.component("kube-scheduler",
		"--kubeconfig="+c.componentKubeconfig(schedulerPair),
		"--leader-elect=false",
		"--profiling=false",
	)
}

func (p components) containerd() daemon.Spec {
	c := p.cluster
	spec := p.component("containerd", "--config="+c.path("containerd.toml"))
	spec.Program = "containerd"
	return spec
}

func (p components) kubelet() daemon.Spec {
	c := p.cluster
	return p.component("kubelet",
		"--config="+c.path("kubelet.yaml"),
		"--kubeconfig="+c.componentKubeconfig(nodePair),
		"--hostname-override="+c.node(),
		"--node-ip="+c.address().Addr().String(),
		"--root-dir="+c.path("kubelet"),
		"--cert-dir="+c.path("kubelet", "pki"),
	)
}

func (p components) proxy() daemon.Spec {
	c := p.cluster
	return p.component("kube-proxy", "--config="+c.path("kube-proxy.yaml"))
}

func (p components) dns() daemon.Spec {
	c := p.cluster
	return p.component("coredns", "-conf="+c.path("Corefile"))
}

func (p components) provisioner() daemon.Spec {
	c := p.cluster
	return p.component("provisioner",
		"--kubeconfig="+c.componentKubeconfig(provisionerPair),
		"--node="+c.node(),
		"--dir="+c.path("volumes"),
	)
}
