// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/clusterinfo"
	"github.com/capstan-io/capstan/internal/cli/discovery"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// outputRenderer returns the function that makes the text to print, once the token is
// there. What cannot be printed is an error before that.
func (c *createCommand) outputRenderer(config *rest.Config) (func(context.Context, client.Client, string) ([]byte, error), error) {
	switch {
	case c.kubeconfig:
		ca, err := verifiedCA(config)
		return func(_ context.Context, _ client.Client, token string) ([]byte, error) {
			return bootstrapKubeconfig(config, ca, token)
		}, err
	case c.command:
		address, err := addressOf(config.Host)
		if err != nil {
			return nil, err
		}
		if host, _, _ := net.SplitHostPort(address); host == "localhost" || net.ParseIP(host).IsLoopback() {
			fmt.Fprintln(c.session.ErrOut, "Warning: by this address a machine reaches itself. Give the address at which members reach the hub with --server.")
		}
		ca, err := verifiedCA(config)
		return func(ctx context.Context, hub client.Client, token string) ([]byte, error) {
			return c.registerCommand(ctx, hub, address, ca, token)
		}, err
	default:
		return func(_ context.Context, _ client.Client, token string) ([]byte, error) {
			return []byte(token + "\n"), nil
		}, nil
	}
}

// addressOf returns HOST:PORT of the URL of an API server.
func addressOf(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "https://" + server // as clients of Kubernetes take it
	}
	address, err := url.Parse(server)
	if err != nil || address.Scheme != "https" || address.Hostname() == "" || strings.Trim(address.Path, "/") != "" {
		return "", exit.Next(fmt.Errorf("%s is not the address of an API server as HOST:PORT, which is how clusters register", server),
			"Give another one with --server, or use --print-kubeconfig.")
	}
	if address.Port() == "" {
		return net.JoinHostPort(address.Hostname(), "443"), nil
	}
	return address.Host, nil
}

// registerCommand returns what to type where the kubeconfig of the member is.
// The CA is that which the hub publishes; in a dry run, which would publish it.
func (c *createCommand) registerCommand(ctx context.Context, hub client.Client, address string, ca []byte, token string) ([]byte, error) {
	info := &corev1.ConfigMap{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo}, info)
	if err == nil {
		entry, err := discovery.ParsePublishedCluster(info.Data[api.KubeConfigKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap kube-public/cluster-info: %w", err)
		}
		ca = entry.CertificateAuthorityData
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read ConfigMap kube-public/cluster-info: %w", err)
	}
	hashes, err := discovery.PublicKeyHashes(ca)
	if err != nil {
		return nil, fmt.Errorf("the CA of the hub: %w", err)
	}
	text := fmt.Sprintf("%s register %s --token %s", c.program, address, token)
	for _, hash := range hashes {
		text += " --discovery-token-ca-cert-hash " + hash
	}
	if len(c.names) == 1 && !strings.Contains(c.names[0], "*") {
		text += " --cluster-name " + c.names[0]
	}
	return []byte(text + "\n"), nil
}

// verifiedCA returns the CA of a hub whose certificate is verified.
func verifiedCA(config *rest.Config) ([]byte, error) {
	if config.Insecure {
		return nil, exit.Next(errors.New("the kubeconfig does not verify the certificate of the hub, and agents have to"),
			"Use a kubeconfig with the CA of the hub, without insecure-skip-tls-verify.")
	}
	return clusterinfo.TrustedCABundle(config)
}

// bootstrapKubeconfig returns a kubeconfig of the hub with the token and nothing of the
// credentials in use.
func bootstrapKubeconfig(config *rest.Config, ca []byte, token string) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	c.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: ca}
	c.AuthInfos["bootstrap"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["bootstrap"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "bootstrap"}
	c.CurrentContext = "bootstrap"
	text, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}
