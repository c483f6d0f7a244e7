// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clinic

import (
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigOf returns a kubeconfig with one context, hub, which is current.
func KubeconfigOf(config *rest.Config) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	if !strings.Contains(config.Host, "://") {
		c.Clusters["hub"].Server = "https://" + config.Host
	}
	c.AuthInfos["me"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "me"}
	c.CurrentContext = "hub"
	return c
}

// ClosedPort returns an address at which nobody listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}
