// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/untrusted/yamlalias"
)

// bytesMax is how long a kubeconfig may be. Parsing it takes up some hundred times as much
// memory; the authorities of a whole operating system have half of that.
const bytesMax = 512 << 10

// Files returns what came with a kubeconfig under a name without a folder.
type Files func(name string) (content []byte, found bool)

// SecretFiles returns the files in a Secret.
func SecretFiles(secret map[string][]byte) Files {
	return func(name string) ([]byte, bool) {
		content, found := secret[name]
		return content, found
	}
}

// FolderFiles returns the files in a folder, such as one that a Secret is mounted to.
func FolderFiles(dir string) Files {
	return func(name string) ([]byte, bool) {
		content, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // of the kubeconfig's own folder
		return content, err == nil
	}
}

// Kubeconfig is the current context of a kubeconfig, without references to files.
type Kubeconfig struct {
	// Entry is the name of the cluster in it.
	Entry   string
	Cluster *clientcmdapi.Cluster
	User    *clientcmdapi.AuthInfo

	config *clientcmdapi.Config
}

// LoadCurrentContext reads the current context.
func LoadCurrentContext(data []byte, files Files) (*Kubeconfig, error) {
	k, user, err := parseCurrentContext(data)
	if err != nil {
		return nil, err
	}
	var found bool
	if k.User, found = k.config.AuthInfos[user]; !found || k.User == nil {
		return nil, fmt.Errorf("it has no user %q, which its context %q names", user, k.config.CurrentContext)
	}
	if k.User.Exec != nil || k.User.AuthProvider != nil {
		return nil, fmt.Errorf("its user %q authenticates with a plugin; agents need a token or a client certificate", user)
	}
	if err := k.inlineFiles(files); err != nil {
		return nil, err
	}
	return k, nil
}

// LoadCluster reads only where the current context leads, not who one is there:
// User is nil.
func LoadCluster(data []byte, files Files) (*Kubeconfig, error) {
	k, _, err := parseCurrentContext(data)
	if err != nil {
		return nil, err
	}
	if err := inlineFile("certificate-authority", &k.Cluster.CertificateAuthority, &k.Cluster.CertificateAuthorityData, files); err != nil {
		return nil, err
	}
	if err := certs.CheckBundle(k.Cluster.CertificateAuthorityData); err != nil {
		return nil, fmt.Errorf("its certificate-authority %w", err)
	}
	return k, nil
}

func parseCurrentContext(data []byte) (k *Kubeconfig, user string, err error) {
	if strings.TrimSpace(string(data)) == "" {
		return nil, "", errors.New("it is empty")
	}
	if len(data) > bytesMax {
		return nil, "", fmt.Errorf("it has %d bytes, more than %d: leave out what its current context does not need", len(data), bytesMax)
	}
	if err := yamlalias.RefuseAliases(data); err != nil {
		return nil, "", err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, "", fmt.Errorf("it is not a valid kubeconfig: %w", err)
	}
	current, found := config.Contexts[config.CurrentContext]
	if !found || current == nil {
		return nil, "", fmt.Errorf("it has no context %q, which is its current-context", config.CurrentContext)
	}
	cluster, found := config.Clusters[current.Cluster]
	if !found || cluster == nil {
		return nil, "", fmt.Errorf("it has no cluster %q, which its context %q names", current.Cluster, config.CurrentContext)
	}
	return &Kubeconfig{Entry: current.Cluster, Cluster: cluster, config: config}, current.AuthInfo, nil
}

// inlineFiles replaces the names of files by what they have.
func (k *Kubeconfig) inlineFiles(files Files) error {
	token := []byte(k.User.Token)
	for _, file := range []struct {
		field string
		path  *string
		data  *[]byte
	}{
		{"certificate-authority", &k.Cluster.CertificateAuthority, &k.Cluster.CertificateAuthorityData},
		{"client-certificate", &k.User.ClientCertificate, &k.User.ClientCertificateData},
		{"client-key", &k.User.ClientKey, &k.User.ClientKeyData},
		{"tokenFile", &k.User.TokenFile, &token},
	} {
		if err := inlineFile(file.field, file.path, file.data, files); err != nil {
			return err
		}
	}
	k.User.Token = strings.TrimSpace(string(token))
	return k.checkKeys()
}

// checkKeys refuses keys that take too long to be used: a process parses them, and those
// of all others wait.
func (k *Kubeconfig) checkKeys() error {
	if err := certs.CheckKey(k.User.ClientKeyData); err != nil {
		return fmt.Errorf("its client-key %w", err)
	}
	for field, bundle := range map[string][]byte{
		"certificate-authority": k.Cluster.CertificateAuthorityData, "client-certificate": k.User.ClientCertificateData,
	} {
		if err := certs.CheckBundle(bundle); err != nil {
			return fmt.Errorf("its %s %w", field, err)
		}
	}
	return nil
}

func inlineFile(field string, path *string, data *[]byte, files Files) error {
	if *path == "" {
		return nil
	}
	if len(*data) == 0 {
		content, found := files(filepath.Base(*path))
		if !found {
			return fmt.Errorf("%s is the file %q, which is not a key of the secret", field, *path)
		}
		*data = content
	}
	*path = ""
	return nil
}

// ClientConfig returns the configuration of clients for the current context.
func (k *Kubeconfig) ClientConfig() (*rest.Config, error) {
	config, err := clientcmd.NewDefaultClientConfig(*k.config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("its current context is not complete: %w", err)
	}
	return config, nil
}
