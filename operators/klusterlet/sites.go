// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/render"
)

// memberRequestTimeout is how long one request to a managed cluster may take.
const memberRequestTimeout = 10 * time.Second

// site is a cluster that something is installed on: the one that the operator
// runs on, or the managed cluster of hosted agents. The phases do the same on
// either; where agents run on their member, both are one.
type site struct {
	client client.Client
	// live reads from the API server, what is needed rarely.
	live    client.Reader
	applier *render.Applier
	// secretApplier sees what is there through a reader that may read secrets.
	secretApplier *render.Applier
}

func newSite(c client.Client, live, secrets client.Reader) *site {
	return &site{
		client: c, live: live,
		applier:       render.NewApplier(c, c, FieldOwner),
		secretApplier: render.NewApplier(c, secrets, FieldOwner),
	}
}

// members keeps a site for the managed cluster of each Klusterlet with hosted
// agents, so that its API is not discovered anew in each pass. It is safe for
// concurrent use.
type members struct {
	scheme *runtime.Scheme

	mu     sync.Mutex
	byName map[string]member
}

// member is the site that was made with a credential.
type member struct {
	fingerprint string
	site        *site
}

func newMembers(scheme *runtime.Scheme) *members {
	return &members{scheme: scheme, byName: map[string]member{}}
}

// get returns the site of the Klusterlet's managed cluster: a new one if the
// credential is another than before. Making it asks nothing of the cluster.
func (m *members) get(klusterlet string, credential probe.Credential) (*site, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.byName[klusterlet]; ok && known.fingerprint == credential.Fingerprint {
		return known.site, nil
	}
	config := rest.CopyConfig(credential.Config)
	config.Timeout = memberRequestTimeout
	config.QPS = -1 // the managed cluster's own fairness decides
	c, err := client.New(config, client.Options{Scheme: m.scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the managed cluster %s: %w", credential.Host(), err)
	}
	made := newSite(c, c, c)
	m.byName[klusterlet] = member{fingerprint: credential.Fingerprint, site: made}
	return made, nil
}

func (m *members) forget(klusterlet string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, klusterlet)
}
