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
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
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
	Problem CheckOutcome
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

// HostAlias lets a name of the hub stand for an address, as in /etc/hosts.
type HostAlias struct {
	IP, Hostname string
}

// InspectSecret reads a secret with a kubeconfig; nil means that there is none. The
// name is for messages.
func InspectSecret(secret *corev1.Secret, name string, alias *HostAlias) Credential {
	if secret == nil {
		return Credential{Problem: CheckOutcome{SecretMissing, fmt.Sprintf("secret %q does not exist", name)}}
	}
	data := secret.Data[kubeconfigKey]
	credential := Credential{ClusterName: string(secret.Data[clusterNameKey])}
	if len(data) == 0 {
		credential.Problem = CheckOutcome{KubeconfigMissing, fmt.Sprintf("secret %q has no key %q", name, kubeconfigKey)}
		return credential
	}
	config, cluster, err := restConfig(data, secret.Data, alias)
	if err != nil {
		credential.Problem = CheckOutcome{KubeconfigMalformed, fmt.Sprintf("the kubeconfig in secret %q cannot be used: %v", name, err)}
		return credential
	}
	credential.Config = config
	credential.Cluster = cluster
	credential.Fingerprint = FingerprintData(secret.Data)
	return credential
}

// FingerprintData tells what a secret has from what it had before.
func FingerprintData(data map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%q=%q/", key, data[key])
	}
	return hex.EncodeToString(sum.Sum(nil)[:fingerprintBytes])
}

// ReadSecret reads a secret; nil means that there is none.
func ReadSecret(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
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

// restConfig returns the configuration of the current context and its cluster. Who may
// write the Secret chooses the server, which must not end the process by its answers.
func restConfig(data []byte, files map[string][]byte, alias *HostAlias) (*rest.Config, *clientcmdapi.Cluster, error) {
	read, err := kubeconfig.LoadCurrentContext(data, kubeconfig.SecretFiles(files))
	if err != nil {
		return nil, nil, err
	}
	if u, err := url.Parse(read.Cluster.Server); err != nil || u.Host == "" || u.Scheme != "https" {
		return nil, nil, fmt.Errorf("server %q of its cluster %q is not a URL like https://hub.example.com:6443", read.Cluster.Server, read.Entry)
	}
	config, err := read.ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	if alias != nil {
		config.Dial = alias.dialAlias
	}
	dial.LimitAnswers(config)
	return config, read.Cluster, nil
}

// dialAlias connects to the address of the alias where the hub's name is asked for.
func (a *HostAlias) dialAlias(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == a.Hostname {
		address = net.JoinHostPort(a.IP, port)
	}
	return (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, network, address)
}
