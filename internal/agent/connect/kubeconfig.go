// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
)

// HubEndpoint is how to reach the hub, whoever one is.
type HubEndpoint struct {
	// Entry is the name of the cluster in the kubeconfig. It has no meaning of
	// its own; a change of it means another hub.
	Entry string
	// Server is the URL of the API server.
	Server string
	// CA has the PEM of the certificates that sign the server's. Empty is for
	// the CAs of the system.
	CA []byte
	// TLSServerName is the name to expect in the server's certificate. Empty is
	// for the host of Server.
	TLSServerName string
	// ProxyURL of an HTTP or SOCKS5 proxy. Empty is for what the environment says.
	ProxyURL string
	// Insecure does without a check of the server's certificate.
	Insecure bool
}

// Equal reports whether both are the same hub, reached and verified in the same way.
func (e HubEndpoint) Equal(other HubEndpoint) bool {
	return e.SameConnection(other) && bytes.Equal(bytes.TrimSpace(e.CA), bytes.TrimSpace(other.CA))
}

// SameConnection reports whether both are the same hub, reached in the same way. It may be
// verified by other certificates.
func (e HubEndpoint) SameConnection(other HubEndpoint) bool {
	return e.Entry == other.Entry && e.Server == other.Server && e.ProxyURL == other.ProxyURL &&
		e.TLSServerName == other.TLSServerName && e.Insecure == other.Insecure
}

// Names that a hub kubeconfig of ours has inside. OCM's are the same.
const (
	kubeconfigUser      = "default-auth"
	kubeconfigContext   = "default-context"
	kubeconfigNamespace = "configuration"
)

// ParsedKubeconfig is a kubeconfig that was understood.
type ParsedKubeconfig struct {
	// Endpoint is the server of the current context.
	Endpoint HubEndpoint
	// Config is for the server and user of the current context, without a limit
	// on requests.
	Config *rest.Config
}

// ParseKubeconfig understands the current context of a kubeconfig that came with
// files; see package kubeconfig.
func ParseKubeconfig(data []byte, files kubeconfig.Files) (ParsedKubeconfig, error) {
	read, err := kubeconfig.LoadCurrentContext(data, files)
	if err != nil {
		return ParsedKubeconfig{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	endpoint, err := endpointOf(read)
	if err != nil {
		return ParsedKubeconfig{}, err
	}
	read.Cluster.Server = endpoint.Server
	rc, err := read.ClientConfig()
	if err != nil {
		return ParsedKubeconfig{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	rc.QPS = -1
	rc.Burst = 0
	return ParsedKubeconfig{Endpoint: endpoint, Config: rc}, nil
}

// ParseEndpoint understands only where the current context of a kubeconfig
// leads, not who one is there.
func ParseEndpoint(data []byte, files kubeconfig.Files) (HubEndpoint, error) {
	read, err := kubeconfig.LoadCluster(data, files)
	if err != nil {
		return HubEndpoint{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return endpointOf(read)
}

func endpointOf(read *kubeconfig.Kubeconfig) (HubEndpoint, error) {
	cluster := read.Cluster
	server := strings.TrimSuffix(cluster.Server, "/")
	if server == "" {
		return HubEndpoint{}, fmt.Errorf("cluster %q of the kubeconfig has no server", read.Entry)
	}
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	if u, err := url.Parse(server); err != nil || u.Host == "" {
		return HubEndpoint{}, fmt.Errorf("server %q of the kubeconfig is not a URL such as https://hub.example.com:6443", cluster.Server)
	}
	return HubEndpoint{
		Entry: read.Entry, Server: server, CA: cluster.CertificateAuthorityData, TLSServerName: cluster.TLSServerName,
		ProxyURL: cluster.ProxyURL, Insecure: cluster.InsecureSkipTLSVerify,
	}, nil
}

// FormatKubeconfig returns a kubeconfig for the endpoint whose client
// certificate and key are in files beside it.
func FormatKubeconfig(endpoint HubEndpoint, certFile, keyFile string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[endpoint.Entry] = &clientcmdapi.Cluster{
		Server: endpoint.Server, CertificateAuthorityData: endpoint.CA, TLSServerName: endpoint.TLSServerName,
		ProxyURL: endpoint.ProxyURL, InsecureSkipTLSVerify: endpoint.Insecure,
	}
	config.AuthInfos[kubeconfigUser] = &clientcmdapi.AuthInfo{ClientCertificate: certFile, ClientKey: keyFile}
	config.Contexts[kubeconfigContext] = &clientcmdapi.Context{
		Cluster: endpoint.Entry, AuthInfo: kubeconfigUser, Namespace: kubeconfigNamespace,
	}
	config.CurrentContext = kubeconfigContext
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the hub kubeconfig: %w", err)
	}
	return data, nil
}
