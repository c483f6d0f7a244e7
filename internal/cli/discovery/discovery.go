// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery establishes trust in a hub from its address, a bootstrap
// token and the hashes of its CAs.
//
// It is the way of kubeadm: the hub publishes a kubeconfig for everybody to
// read, the ConfigMap cluster-info in namespace kube-public, and signs it with
// each token. So the holder of a token sees that it comes from somebody who
// knows the token; the hash says that its CA is the right one.
package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/version"
)

const (
	// requestTimeout bounds one request to a hub that is only an address yet.
	requestTimeout = 10 * time.Second
	// signatureTimeout is how long the hub may take to sign for a token that was
	// only just made, and signatureRetry how often it is looked at meanwhile.
	signatureTimeout = 5 * time.Second
	signatureRetry   = time.Second
)

// Request is what is known of a hub.
type Request struct {
	// Address is HOST:PORT.
	Address string
	// Token is the bootstrap token.
	Token string
	// Pins are the CAs to trust. Without any, the token alone has to do: everybody
	// who holds it can then pretend to be the hub.
	Pins Pins
}

// Hub is what was found out.
type Hub struct {
	// Server is the URL of its API server, at the address that was asked for.
	Server string
	// CA are the PEM encoded certificates to verify it with.
	CA []byte
	// Unpinned are the hashes of CAs that the hub has, too, but nobody vouched for.
	Unpinned []string
}

// DiscoverHub asks the hub. Its errors have the next step.
func DiscoverHub(ctx context.Context, r Request) (*Hub, error) {
	hub := &Hub{Server: "https://" + r.Address}
	kubeconfig, err := r.readSignedKubeconfig(ctx, hub)
	if err != nil {
		return nil, err
	}
	bundle, err := bundleOf(kubeconfig)
	if err != nil {
		return nil, exit.Next(fmt.Errorf("the hub at %s publishes a kubeconfig that cannot be used: %w", r.Address, err), "Tell an administrator of the hub: it is in ConfigMap kube-public/cluster-info.")
	}
	if hub.CA = bundle; len(r.Pins) > 0 {
		if hub.CA, hub.Unpinned, err = r.Pins.selectPinned(bundle); err != nil {
			return nil, fmt.Errorf("the hub at %s publishes a CA that cannot be used: %w", r.Address, err)
		}
		if len(hub.CA) == 0 {
			return nil, exit.Next(fmt.Errorf("the CA of the hub at %s is not the one of the hash: its hash is %s", r.Address, strings.Join(hub.Unpinned, ", ")),
				"Either the hash belongs to another hub, or something is impersonating yours. Compare it with what \"capstan token create --print-register-command\" prints there.")
		}
	}
	// What was read before could be trusted because of the signature; that this
	// address is the hub's is only seen by its certificate.
	again, err := readClusterInfo(ctx, &rest.Config{Host: hub.Server, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA}})
	if err != nil {
		return nil, explainError(r.Address, err)
	}
	if again.Data[api.KubeConfigKey] != kubeconfig {
		return nil, exit.Next(fmt.Errorf("the hub at %s returned different cluster-info with and without certificate verification", r.Address),
			"The connection may be intercepted: do not continue from this network until you know why.")
	}
	return hub, nil
}

// readSignedKubeconfig returns the kubeconfig that the hub publishes once it is signed with
// the token.
func (r Request) readSignedKubeconfig(ctx context.Context, hub *Hub) (string, error) {
	id, secret, _ := strings.Cut(r.Token, ".")
	patience, cancel := context.WithTimeout(ctx, signatureTimeout)
	defer cancel()
	for {
		// Nothing secret is sent, and what comes back counts only if it is signed.
		info, err := readClusterInfo(ctx, &rest.Config{Host: hub.Server, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		if err != nil {
			return "", explainError(r.Address, err)
		}
		kubeconfig := info.Data[api.KubeConfigKey]
		signature := info.Data[api.JWSSignatureKeyPrefix+id]
		if signature != "" {
			if jws.DetachedTokenIsValid(signature, kubeconfig, id, secret) {
				return kubeconfig, nil
			}
			return "", exit.Next(fmt.Errorf("the secret of token %q does not match the signature from the hub at %s", id, r.Address),
				"Give the whole token as \"capstan token create\" printed it. If it is right, what the hub publishes has changed since it was made, or something is impersonating the hub: create a new token.")
		}
		select {
		case <-time.After(signatureRetry):
		case <-patience.Done():
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", exit.Next(fmt.Errorf("the hub at %s has signed nothing with token %q: it has expired, was deleted, or was never one of this hub", r.Address, id),
				"On the hub, \"capstan token list\" lists the tokens, and \"capstan token create --print-register-command\" makes a new one.")
		}
	}
}

func readClusterInfo(ctx context.Context, config *rest.Config) (*corev1.ConfigMap, error) {
	config.Timeout, config.UserAgent = requestTimeout, "capstan/"+version.SemanticVersion()
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", config.Host, err)
	}
	return client.ConfigMaps(metav1.NamespacePublic).Get(ctx, api.ConfigMapClusterInfo, metav1.GetOptions{})
}

// bundleOf returns the CA bundle of a kubeconfig that is published.
func bundleOf(kubeconfig string) ([]byte, error) {
	entry, err := ParsePublishedCluster(kubeconfig)
	if err != nil {
		return nil, err
	}
	return entry.CertificateAuthorityData, nil
}

// ParsePublishedCluster returns the one cluster of a kubeconfig that a hub publishes.
func ParsePublishedCluster(kubeconfig string) (*clientcmdapi.Cluster, error) {
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, entry := range config.Clusters {
		if len(config.Clusters) == 1 && len(entry.CertificateAuthorityData) > 0 {
			return entry, nil
		}
	}
	return nil, errors.New("it does not have one cluster with a CA")
}

// explainError adds what an error of a request means.
func explainError(address string, err error) error {
	var (
		unknownCA x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
	)
	fail := func(err error, next string) error { return &exit.Error{Err: err, Next: next, Code: exit.NoHub} }
	status := apierrors.APIStatus(nil)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return fail(fmt.Errorf("the hub at %s does not publish how to trust it: %w", address, err),
			"On the hub, \"capstan token create --print-register-command\" publishes it. If its API server must not answer anonymous requests, use \"capstan token create --print-kubeconfig\" and \"make deploy-spoke\" instead.")
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return fail(fmt.Errorf("the hub at %s is not healthy: %w", address, err), "Run the command again in a moment.")
	case errors.As(err, &unknownCA):
		return fail(fmt.Errorf("the certificate of the hub at %s is not one of its own CA, as the hub publishes it", address),
			"Use the address of its API server itself, or let an administrator of the hub put the right CA into ConfigMap kube-public/cluster-info. If nothing should be in between, something is impersonating the hub.")
	case errors.As(err, &hostname):
		return fail(fmt.Errorf("the certificate of the hub is not valid for the address %s: %w", address, hostname), "Use an address that it is valid for.")
	case errors.As(err, &invalid):
		return fail(fmt.Errorf("the certificate of the hub at %s is not valid: %w", address, invalid), "If it has expired, renew it on the hub; otherwise check the clock of this machine.")
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fail(fmt.Errorf("%s does not speak TLS", address), "Give the port of the hub's API server; usually 6443 or 443.")
	default:
		return fail(fmt.Errorf("cannot reach the hub at %s: %w", address, err), "Check that this is the address of its API server, that the hub is running, and that this machine can reach it.")
	}
}
