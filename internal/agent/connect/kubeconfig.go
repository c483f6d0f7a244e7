// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Endpoint is how to reach the hub, whoever one is.
type Endpoint struct {
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

// Equal tells whether both are the same hub, reached in the same way.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.Entry == other.Entry && e.Server == other.Server && e.ProxyURL == other.ProxyURL &&
		e.TLSServerName == other.TLSServerName && e.Insecure == other.Insecure &&
		bytes.Equal(bytes.TrimSpace(e.CA), bytes.TrimSpace(other.CA))
}

// Names that a hub kubeconfig of ours has inside. OCM's are the same.
const (
	kubeconfigUser      = "default-auth"
	kubeconfigContext   = "default-context"
	kubeconfigNamespace = "configuration"
)

// Kubeconfig is a kubeconfig that was understood.
type Kubeconfig struct {
	// Endpoint is the server of the current context.
	Endpoint Endpoint
	// Config is for the server and user of the current context, without a limit
	// on requests.
	Config *rest.Config
}

// ParseKubeconfig understands the current context of a kubeconfig. Files that
// it refers to are relative to dir; an empty dir refuses relative ones.
func ParseKubeconfig(data []byte, dir string) (Kubeconfig, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Kubeconfig{}, errors.New("the kubeconfig is empty")
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("the kubeconfig is not valid YAML or JSON of a kubeconfig: %w", err)
	}
	current, found := config.Contexts[config.CurrentContext]
	if !found {
		return Kubeconfig{}, fmt.Errorf("the kubeconfig has no context %q, its current-context", config.CurrentContext)
	}
	cluster, found := config.Clusters[current.Cluster]
	if !found {
		return Kubeconfig{}, fmt.Errorf("the kubeconfig has no cluster %q, that of its current context", current.Cluster)
	}
	if dir != "" {
		if err := resolvePaths(config, dir); err != nil {
			return Kubeconfig{}, err
		}
	}
	endpoint, err := endpointOf(current.Cluster, cluster)
	if err != nil {
		return Kubeconfig{}, err
	}
	cluster.Server = endpoint.Server
	rc, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	rc.QPS, rc.Burst = -1, 0
	return Kubeconfig{Endpoint: endpoint, Config: rc}, nil
}

func resolvePaths(config *clientcmdapi.Config, dir string) error {
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = dir + "/kubeconfig"
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = dir + "/kubeconfig"
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return fmt.Errorf("resolving the files that the kubeconfig refers to: %w", err)
	}
	return nil
}

func endpointOf(entry string, cluster *clientcmdapi.Cluster) (Endpoint, error) {
	server := strings.TrimSuffix(cluster.Server, "/")
	if server == "" {
		return Endpoint{}, fmt.Errorf("cluster %q of the kubeconfig has no server", entry)
	}
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	if u, err := url.Parse(server); err != nil || u.Host == "" {
		return Endpoint{}, fmt.Errorf("server %q of the kubeconfig is not a URL such as https://hub.example.com:6443", cluster.Server)
	}
	ca := cluster.CertificateAuthorityData
	if len(ca) == 0 && cluster.CertificateAuthority != "" {
		var err error
		if ca, err = os.ReadFile(cluster.CertificateAuthority); err != nil {
			return Endpoint{}, fmt.Errorf("reading the CA that the kubeconfig refers to: %w", err)
		}
	}
	return Endpoint{
		Entry: entry, Server: server, CA: ca, TLSServerName: cluster.TLSServerName,
		ProxyURL: cluster.ProxyURL, Insecure: cluster.InsecureSkipTLSVerify,
	}, nil
}

// FormatKubeconfig returns a kubeconfig for the endpoint whose client
// certificate and key are in files beside it.
func FormatKubeconfig(endpoint Endpoint, certFile, keyFile string) ([]byte, error) {
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

// ParseEndpoint understands only where the current context of a kubeconfig
// leads, not who one is there.
func ParseEndpoint(data []byte) (Endpoint, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return Endpoint{}, fmt.Errorf("the kubeconfig is not valid YAML or JSON of a kubeconfig: %w", err)
	}
	current, found := config.Contexts[config.CurrentContext]
	if !found || config.Clusters[current.Cluster] == nil {
		return Endpoint{}, fmt.Errorf("the kubeconfig has no context %q with a cluster", config.CurrentContext)
	}
	return endpointOf(current.Cluster, config.Clusters[current.Cluster])
}
