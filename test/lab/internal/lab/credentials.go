// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-io/capstan/test/lab/internal/pki"
)

// The names of the files, without .crt and .key, that hold a certificate or
// public key and its private key.
const (
	authorityPair           = "ca"
	frontProxyAuthorityPair = "front-proxy-ca"
	serviceAccountPair      = "service-account"
	apiServerPair           = "kube-apiserver"
	kubeletClientPair       = "kube-apiserver-kubelet-client"
	frontProxyPair          = "front-proxy-client"
	adminPair               = "admin"
	controllerManagerPair   = "kube-controller-manager"
	schedulerPair           = "kube-scheduler"
	proxyPair               = "kube-proxy"
	dnsPair                 = "coredns"
	nodePair                = "kubelet"
	provisionerPair         = "provisioner"
)

// frontProxyName is whom extension API servers trust to tell them the user.
const frontProxyName = "front-proxy-client"

// provisionerUser is who makes volumes.
const provisionerUser = "lab:provisioner"

// administrators is the group that may do everything.
const administrators = "system:masters"

func (c *cluster) certFile(pair string) string { return c.path("pki", pair+".crt") }

func (c *cluster) keyFile(pair string) string { return c.path("pki", pair+".key") }

func (c *cluster) componentKubeconfig(pair string) string {
	return c.path("pki", pair+".kubeconfig")
}

// credentials makes what those who work on a cluster show to each other.
type credentials struct{ cluster *cluster }

// ensure makes the keys, certificates and kubeconfigs of the cluster if it has
// none. They appear all at once, so that what was interrupted is made anew.
func (m credentials) ensure() error {
	c := m.cluster
	if _, err := os.Stat(c.path("pki")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pairs, err := m.makePairs()
	if err != nil {
		return fmt.Errorf("make credentials: %w", err)
	}
	files := make(map[string][]byte, 3*len(pairs))
	for name, pair := range pairs {
		files[name+".crt"] = pair.Public
		files[name+".key"] = pair.Private
	}
	for _, name := range m.clients() {
		config := kubeconfig{name: c.Name, server: c.url(), authority: pairs[authorityPair].Public, client: pairs[name]}
		content, err := clientcmd.Write(*config.build())
		if err != nil {
			return fmt.Errorf("encode kubeconfig of %s: %w", name, err)
		}
		files[name+".kubeconfig"] = content
	}
	return writeDir(c.path("pki"), files)
}

// clients are the pairs that authenticate a client to the API server.
func (m credentials) clients() []string {
	clients := []string{adminPair, controllerManagerPair}
	if !m.cluster.Nodeless {
		clients = append(clients, schedulerPair, proxyPair, dnsPair, nodePair, provisionerPair)
	}
	return clients
}

func (m credentials) makePairs() (map[string]pki.Pair, error) {
	authority, err := pki.NewAuthority("kubernetes " + m.cluster.Name)
	if err != nil {
		return nil, err
	}
	frontProxyAuthority, err := pki.NewAuthority("front proxy " + m.cluster.Name)
	if err != nil {
		return nil, err
	}
	signingKey, err := pki.NewSigningKey()
	if err != nil {
		return nil, err
	}
	frontProxy, err := frontProxyAuthority.Issue(client(frontProxyName))
	if err != nil {
		return nil, err
	}
	pairs := map[string]pki.Pair{
		authorityPair:           authority.Pair,
		frontProxyAuthorityPair: frontProxyAuthority.Pair,
		serviceAccountPair:      signingKey,
		frontProxyPair:          frontProxy,
	}
	for name, request := range m.certificates() {
		if pairs[name], err = authority.Issue(request); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// certificates are what the authority of the cluster has to sign.
func (m credentials) certificates() map[string]pki.Request {
	c := m.cluster
	address := net.IP(c.address().Addr().AsSlice())
	node := client("system:node:"+c.node(), "system:nodes")
	node.Usages = append(node.Usages, x509.ExtKeyUsageServerAuth)
	node.DNSNames = []string{c.node()}
	node.IPs = []net.IP{address}
	return map[string]pki.Request{
		apiServerPair: {
			CommonName: "kube-apiserver",
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + clusterDomain, c.Name,
			},
			IPs:    []net.IP{address, c.serviceIP().AsSlice(), net.IPv4(127, 0, 0, 1)},
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		kubeletClientPair:     client("kube-apiserver-kubelet-client", administrators),
		adminPair:             client("kubernetes-admin", administrators),
		controllerManagerPair: client("system:kube-controller-manager"),
		schedulerPair:         client("system:kube-scheduler"),
		proxyPair:             client("system:kube-proxy"),
		dnsPair:               client("system:coredns"),
		provisionerPair:       client(provisionerUser),
		nodePair:              node,
	}
}

// client requests a certificate that authenticates a user.
func client(user string, groups ...string) pki.Request {
	return pki.Request{
		CommonName:    user,
		Organizations: groups,
		Usages:        []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// writeDir makes a directory with files only root can read, all of it or
// nothing.
func writeDir(path string, files map[string][]byte) error {
	temporary := path + ".new"
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	root, err := os.OpenRoot(temporary)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() { _ = root.Close() }()
	for name, content := range files {
		if err := root.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}
