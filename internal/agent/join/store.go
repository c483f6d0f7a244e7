// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
)

// Names of the agent's secrets.
const (
	// BootstrapSecret is given by the user; its key kubeconfig leads to the hub.
	BootstrapSecret = "bootstrap-hub-kubeconfig" //nolint:gosec // the name of a secret
	// HubSecret has the hub credential.
	HubSecret = "hub-kubeconfig-secret" //nolint:gosec // the name of a secret
	// PendingSecret has the key of a certificate signing request that is not
	// answered yet. It is emptied after the answer.
	PendingSecret = "hub-kubeconfig-pending" //nolint:gosec // the name of a secret
)

// Keys in the secrets.
const (
	KeyKubeconfig  = "kubeconfig"
	KeyCertificate = "tls.crt"
	KeyPrivateKey  = "tls.key"
	KeyClusterName = "cluster-name"
	KeyAgentName   = "agent-name"
	keyHubServer   = "hub-server"
)

// annotationBootstrap on HubSecret has the hash of the bootstrap kubeconfig
// that its credential was got with. A deleted cluster joins again only with
// another one.
const annotationBootstrap = "agent.open-cluster-management.io/bootstrap-hash"

// annotationManagedCluster on HubSecret has the UID of the ManagedCluster that
// its credential was issued for.
const annotationManagedCluster = "agent.open-cluster-management.io/managed-cluster-uid"

// annotationGivenCA on HubSecret has the hash of the CA of the bootstrap
// kubeconfig in whose place its kubeconfig has the one that the hub published.
const annotationGivenCA = "agent.open-cluster-management.io/given-ca-hash"

func contentHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// parseHubSecret understands HubSecret. A secret without a kubeconfig, as
// operators make one in advance, is no credential and no error.
func parseHubSecret(secret *corev1.Secret) (*hubCredential, error) {
	if len(secret.Data[KeyKubeconfig]) == 0 {
		return nil, nil //nolint:nilnil // nothing there is not an error, see above
	}
	endpoint, err := connect.ParseEndpoint(secret.Data[KeyKubeconfig], kubeconfig.SecretFiles(secret.Data))
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	cred, err := newCredential(endpoint, secret.Data[KeyCertificate], secret.Data[KeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if name := string(secret.Data[KeyClusterName]); name != "" && name != cred.Cluster {
		return nil, fmt.Errorf("secret %s/%s: it is for cluster %q but its certificate is for %q",
			secret.Namespace, secret.Name, name, cred.Cluster)
	}
	cred.Bootstrap = secret.Annotations[annotationBootstrap]
	cred.ClusterUID = types.UID(secret.Annotations[annotationManagedCluster])
	cred.GivenCA = secret.Annotations[annotationGivenCA]
	return cred, nil
}

// readHubSecret is the way back.
func hubSecret(namespace string, cred *hubCredential) (*corev1.Secret, error) {
	kubeconfig, err := connect.FormatKubeconfig(cred.Endpoint, KeyCertificate, KeyPrivateKey)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: HubSecret,
			Annotations: map[string]string{
				annotationBootstrap: cred.Bootstrap, annotationManagedCluster: string(cred.ClusterUID), annotationGivenCA: cred.GivenCA,
			},
		},
		Data: map[string][]byte{
			KeyKubeconfig: kubeconfig, KeyCertificate: cred.CertPEM, KeyPrivateKey: cred.KeyPEM,
			KeyClusterName: []byte(cred.Cluster), KeyAgentName: []byte(cred.Agent),
		},
	}, nil
}

// parsePending understands PendingSecret.
func parsePending(secret *corev1.Secret) (*application, error) {
	id := identity{Cluster: string(secret.Data[KeyClusterName]), Agent: string(secret.Data[KeyAgentName])}
	if id.Cluster == "" || id.Agent == "" {
		return nil, fmt.Errorf("secret %s/%s: it has no %s or no %s", secret.Namespace, secret.Name, KeyClusterName, KeyAgentName)
	}
	a, err := parseApplication(id, string(secret.Data[keyHubServer]), secret.Data[KeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return a, nil
}

func pendingSecret(namespace string, a *application) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: PendingSecret},
		Data: map[string][]byte{
			KeyPrivateKey: a.KeyPEM, KeyClusterName: []byte(a.Cluster), KeyAgentName: []byte(a.Agent),
			keyHubServer: []byte(a.Server),
		},
	}
}

// putSecret writes the data of a secret. Keys, labels and annotations that it
// has besides are kept.
//
// The operator makes the agent's secrets in advance, as whoever may create
// secrets can have a token of any account in the namespace. Operators of OCM
// leave that to the agent, and let it.
func putSecret(ctx context.Context, home client.Client, secret *corev1.Secret) error {
	live, err := getSecret(ctx, home, secret.Namespace, secret.Name)
	if err != nil {
		return err
	}
	if live == nil {
		err := home.Create(ctx, secret.DeepCopy())
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("secret %s/%s does not exist, and the agent may not create it: the klusterlet operator creates it, is it running? %w",
				secret.Namespace, secret.Name, err)
		}
		if err != nil {
			return fmt.Errorf("creating secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		return nil
	}
	if live.Data == nil {
		live.Data = map[string][]byte{}
	}
	for key, value := range secret.Data {
		live.Data[key] = value
	}
	for key, value := range secret.Annotations {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, key, value)
	}
	return updateSecret(ctx, home, live)
}

// emptySecret takes all data out of a secret.
func emptySecret(ctx context.Context, home client.Client, namespace, name string) error {
	live, err := getSecret(ctx, home, namespace, name)
	if err != nil || live == nil || len(live.Data) == 0 {
		return err
	}
	live.Data = nil
	return updateSecret(ctx, home, live)
}

func updateSecret(ctx context.Context, home client.Client, secret *corev1.Secret) error {
	if err := home.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// getSecret returns nil if there is no such secret.
func getSecret(ctx context.Context, home client.Client, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := home.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s/%s: %w", namespace, name, err)
	}
	return secret, nil
}

// errNoCertificate says that a request was answered with something else.
var errNoCertificate = errors.New("the hub's response is not a certificate for this cluster")

// checkIssued makes a credential of the answer to an application.
func checkIssued(a *application, endpoint connect.HubEndpoint, certPEM []byte) (*hubCredential, error) {
	cred, err := newCredential(endpoint, certPEM, a.KeyPEM)
	if err != nil {
		return nil, errors.Join(errNoCertificate, err)
	}
	if cred.identity != a.identity {
		return nil, fmt.Errorf("%w: it is for cluster %q, agent %q", errNoCertificate, cred.Cluster, cred.Agent)
	}
	return cred, nil
}
