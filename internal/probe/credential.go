// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the secrets.
const (
	kubeconfigKey  = "kubeconfig"
	clusterNameKey = "cluster-name"
)

// fingerprintBytes is how much of a SHA-256 tells two secrets apart.
const fingerprintBytes = 16

// Credential is what the secret with a kubeconfig says.
type Credential struct {
	// Problem is why the kubeconfig cannot be used; its verdict is Unchecked if
	// it can.
	Problem Outcome
	// Config is nil if there is a problem.
	Config *rest.Config
	// Cluster is what the kubeconfig says of the server, all that it names by file
	// included. It is nil if there is a problem.
	Cluster *clientcmdapi.Cluster
	// Fingerprint tells this credential from another one. It is empty if there is a
	// problem.
	Fingerprint string
	// ClusterName is the name that the secret says the cluster joined under.
	ClusterName string
}

// Host is the address of the hub's API server; empty if there is a problem.
func (c Credential) Host() string {
	if c.Config == nil {
		return ""
	}
	return c.Config.Host
}

// Port is the TCP port of the hub's API server; 0 if there is a problem.
func (c Credential) Port() int32 {
	u, err := url.Parse(c.Host())
	if err != nil || u.Host == "" {
		return 0
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return int32(number)
}

// Alias lets a name of the hub stand for an address, as in /etc/hosts.
type Alias struct {
	IP, Hostname string
}

// Inspect reads a secret with a kubeconfig; nil means that there is none. The
// name is for messages.
func Inspect(secret *corev1.Secret, name string, alias *Alias) Credential {
	if secret == nil {
		return Credential{Problem: Outcome{SecretMissing, fmt.Sprintf("secret %q does not exist", name)}}
	}
	kubeconfig := secret.Data[kubeconfigKey]
	credential := Credential{ClusterName: string(secret.Data[clusterNameKey])}
	if len(kubeconfig) == 0 {
		credential.Problem = Outcome{KubeconfigMissing, fmt.Sprintf("secret %q has no key %q", name, kubeconfigKey)}
		return credential
	}
	config, cluster, err := restConfig(kubeconfig, secret.Data)
	if err != nil {
		credential.Problem = Outcome{KubeconfigMalformed, fmt.Sprintf("the kubeconfig in secret %q cannot be used: %v", name, err)}
		return credential
	}
	if alias != nil {
		config.Dial = alias.dial
	}
	credential.Config, credential.Cluster = config, cluster
	credential.Fingerprint = Fingerprint(secret.Data)
	return credential
}

// Fingerprint tells what a secret has from what it had before.
func Fingerprint(data map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%q=%q/", key, data[key])
	}
	return hex.EncodeToString(sum.Sum(nil)[:fingerprintBytes])
}

// Secret reads a secret; nil means that there is none.
func Secret(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // "there is none" is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %q: %w", key, err)
	}
	return secret, nil
}

// restConfig returns the configuration of the current context and its cluster. Whoever may
// write the secret must not make the operator run a program or send a file of
// its own pod to a server of their choice: files are looked up among the keys
// of the secret only, and plugins are refused.
func restConfig(kubeconfig []byte, files map[string][]byte) (*rest.Config, *clientcmdapi.Cluster, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("it is not a kubeconfig: %w", err)
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok || current == nil {
		return nil, nil, fmt.Errorf("it has no context %q, which is its current-context", config.CurrentContext)
	}
	cluster, ok := config.Clusters[current.Cluster]
	if !ok || cluster == nil {
		return nil, nil, fmt.Errorf("it has no cluster %q, which its context %q names", current.Cluster, config.CurrentContext)
	}
	user, ok := config.AuthInfos[current.AuthInfo]
	if !ok || user == nil {
		return nil, nil, fmt.Errorf("it has no user %q, which its context %q names", current.AuthInfo, config.CurrentContext)
	}
	if u, err := url.Parse(cluster.Server); err != nil || u.Host == "" || u.Scheme != "https" {
		return nil, nil, fmt.Errorf("server %q of its cluster %q is not a URL like https://hub.example.com:6443", cluster.Server, current.Cluster)
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return nil, nil, fmt.Errorf("its user %q logs in with a plugin; agents need a token or a client certificate", current.AuthInfo)
	}
	if err := inline(cluster, user, files); err != nil {
		return nil, nil, err
	}
	direct, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("its current context is not complete: %w", err)
	}
	return direct, cluster, nil
}

// inline replaces the names of files by what the secret has under these keys.
func inline(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo, files map[string][]byte) error {
	token := []byte(user.Token)
	for _, file := range []struct {
		field string
		path  *string
		data  *[]byte
	}{
		{"certificate-authority", &cluster.CertificateAuthority, &cluster.CertificateAuthorityData},
		{"client-certificate", &user.ClientCertificate, &user.ClientCertificateData},
		{"client-key", &user.ClientKey, &user.ClientKeyData},
		{"tokenFile", &user.TokenFile, &token},
	} {
		if *file.path == "" {
			continue
		}
		content, ok := files[filepath.Base(*file.path)]
		if len(*file.data) == 0 && !ok {
			return fmt.Errorf("%s is the file %q, which is not a key of the secret", file.field, *file.path)
		}
		if len(*file.data) == 0 {
			*file.data = content
		}
		*file.path = ""
	}
	user.Token = strings.TrimSpace(string(token))
	return nil
}

// dial connects to the address of the alias where the hub's name is asked for.
func (a *Alias) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == a.Hostname {
		address = net.JoinHostPort(a.IP, port)
	}
	return (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, network, address)
}
