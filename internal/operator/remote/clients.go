// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

// clientTimeout is how long one request of a client may take.
const clientTimeout = 10 * time.Second

// ClusterClients keeps a client for the cluster of each owner, so that its API is not
// discovered anew each time. It is safe for concurrent use.
type ClusterClients struct {
	scheme *runtime.Scheme

	mu      sync.Mutex
	byOwner map[string]cachedClient
}

// cachedClient is the client that was made with a credential.
type cachedClient struct {
	fingerprint string
	client      client.Client
}

// NewClusterClients returns a ClusterClients that knows the kinds of the scheme.
func NewClusterClients(scheme *runtime.Scheme) *ClusterClients {
	return &ClusterClients{scheme: scheme, byOwner: map[string]cachedClient{}}
}

// ClientFor returns the client of the owner's cluster: a new one if the credential is
// another than before. Making it asks nothing of the cluster.
func (c *ClusterClients) ClientFor(owner string, credential probe.Credential) (client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byOwner[owner]; ok && known.fingerprint == credential.Fingerprint {
		return known.client, nil
	}
	config := rest.CopyConfig(credential.Config)
	config.Timeout = clientTimeout
	config.QPS = -1 // the cluster's own fairness decides
	// What is not found there is forgotten, so it has to be the cluster that says so.
	if err := dial.ConfirmNotFound(config, ""); err != nil {
		return nil, err
	}
	made, err := client.New(config, client.Options{Scheme: c.scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster %s: %w", credential.Host(), err)
	}
	c.byOwner[owner] = cachedClient{fingerprint: credential.Fingerprint, client: made}
	return made, nil
}

// ForgetClient drops the client of the owner's cluster.
func (c *ClusterClients) ForgetClient(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byOwner, owner)
}
