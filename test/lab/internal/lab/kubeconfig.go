// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/pki"
)

// kubeconfig is how a client reaches a cluster.
type kubeconfig struct {
	name      string
	server    string
	authority []byte
	client    pki.Pair
}

// build returns a configuration whose cluster, user and context have the name
// of the cluster.
func (k kubeconfig) build() *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[k.name] = &clientcmdapi.Cluster{Server: k.server, CertificateAuthorityData: k.authority}
	config.AuthInfos[k.name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: k.client.Public,
		ClientKeyData:         k.client.Private,
	}
	config.Contexts[k.name] = &clientcmdapi.Context{Cluster: k.name, AuthInfo: k.name}
	config.CurrentContext = k.name
	return config
}

// Kubeconfig returns a kubeconfig for the administrator of the named clusters,
// or of all if none is named. Its contexts have the names of the clusters; the
// current one is the first.
func (l *Lab) Kubeconfig(names ...string) ([]byte, error) {
	clusters, err := l.clusters(names...)
	if err != nil {
		return nil, err
	}
	merged := clientcmdapi.NewConfig()
	for _, c := range clusters {
		config, err := clientcmd.LoadFromFile(c.componentKubeconfig(adminPair))
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig of cluster %s: %w", c.Name, err)
		}
		merge(merged, config)
	}
	content, err := clientcmd.Write(*merged)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return content, nil
}

// merge adds one configuration to another.
func merge(to, from *clientcmdapi.Config) {
	for name, cluster := range from.Clusters {
		to.Clusters[name] = cluster
	}
	for name, user := range from.AuthInfos {
		to.AuthInfos[name] = user
	}
	for name, context := range from.Contexts {
		to.Contexts[name] = context
	}
	if to.CurrentContext == "" {
		to.CurrentContext = from.CurrentContext
	}
}

// KubeconfigFile returns the path of the kubeconfig for all clusters.
func (l *Lab) KubeconfigFile() (string, error) {
	path := filepath.Join(l.place.dir, "kubeconfig")
	if !machine.Exists(path) {
		return "", fmt.Errorf("the lab %s has no clusters: make some with lab up", l.place.dir)
	}
	return path, nil
}

// writeKubeconfig writes the kubeconfig for all clusters to a file.
func (l *Lab) writeKubeconfig() error {
	content, err := l.Kubeconfig()
	if err != nil {
		return err
	}
	path := filepath.Join(l.place.dir, "kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	l.progress.Step("lab %s: kubeconfig %s", l.place.dir, path)
	return nil
}
