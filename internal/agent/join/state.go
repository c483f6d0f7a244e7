// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/agent/connect"
)

// joinState is what the loop knows and has. Only the loop uses it.
type joinState struct {
	facts     joinFacts
	bootstrap *bootstrapAccess
	hub       *hubAccess
	// doubt is called when the hub refuses the hub credential.
	doubt func()
	// clusterVersion and csrVersion are the resourceVersions of ManagedCluster and
	// request as they were last read or written.
	clusterVersion, csrVersion string
	// bootstrapInSecret is true while the bootstrap kubeconfig is that of the secret.
	bootstrapInSecret bool
	// strikes counts refusals in a row, verifies questions to the hub.
	strikes, verifies int
	// issued is how many certificates were issued in a row, the last at issuedAt.
	issued   int
	issuedAt time.Time
}

// bootstrapAccess is the bootstrap kubeconfig in use.
type bootstrapAccess struct {
	hash   string
	config connect.ParsedKubeconfig
	client client.WithWatch // made when first needed
}

// hubAccess is the hub credential in use.
type hubAccess struct {
	engagement
	hub    *connect.HubTransport
	client client.WithWatch
}

// bootstrapClient returns the client of the bootstrap kubeconfig.
func (s *joinState) bootstrapClient() (client.WithWatch, error) {
	if s.bootstrap == nil {
		return nil, errors.New("there is no bootstrap kubeconfig")
	}
	if s.bootstrap.client == nil {
		c, err := connect.HubClient(s.bootstrap.config.Config)
		if err != nil {
			return nil, err
		}
		s.bootstrap.client = c
	}
	return s.bootstrap.client, nil
}

// hubClient returns the client of the hub credential.
func (s *joinState) hubClient() (client.WithWatch, error) {
	cred := s.facts.Hub
	want := engagement{identity: cred.identity, Endpoint: cred.Endpoint}
	if s.usesTransportOf(cred) {
		return s.hub.client, nil
	}
	hub, err := connect.NewHubTransport(cred.Endpoint, cred.Certificate, func(int) { s.doubt() })
	if err != nil {
		return nil, err
	}
	c, err := connect.HubClient(hub.ClientConfig())
	if err != nil {
		return nil, err
	}
	if s.hub != nil {
		s.hub.hub.Close()
	}
	s.hub = &hubAccess{engagement: want, hub: hub, client: c}
	return c, nil
}

// usesTransportOf reports whether the way to the hub is that of the credential, whose
// certificate and CA it can take over.
func (s *joinState) usesTransportOf(cred *hubCredential) bool {
	return s.hub != nil && s.hub.identity == cred.identity && s.hub.Endpoint.SameConnection(cred.Endpoint)
}

// clientOf returns the client to follow with, and a name of the credential.
func (s *joinState) clientOf(by credentialSource) (client.WithWatch, string, error) {
	switch by {
	case followByBootstrap:
		c, err := s.bootstrapClient()
		return c, "bootstrap/" + s.facts.Bootstrap.Hash, err
	case followByHub:
		c, err := s.hubClient()
		return c, "hub/" + s.facts.Hub.Endpoint.Server + "/" + s.facts.Hub.Agent, err
	}
	return nil, "", nil
}

// wasOurs reports whether this agent has or had a credential for the name.
func (s *joinState) wasOurs(name string) bool {
	hub := s.facts.Hub
	return hub != nil && hub.Cluster == name && hub.Endpoint.Server == s.facts.Bootstrap.Endpoint.Server
}

// countRefusal counts a refusal, and believes it when there are enough of them.
func (s *joinState) countRefusal(auth authFact) {
	f := &s.facts
	s.strikes++
	if s.strikes >= strikesMax {
		f.Auth = auth
		s.strikes = 0
		return
	}
	f.VerifyAt, f.Recheck = f.Now.Add(strikeTime), f.Engaged != nil
}

// verifyPause returns the time until the next question.
func (s *joinState) verifyPause(followsCluster bool) time.Duration {
	if s.facts.Engaged != nil {
		return verifyEngaged
	}
	pause := connect.PermissionPause(s.verifies + 1)
	if s.facts.Cluster.State == clusterPreparing && followsCluster {
		return max(pause, verifyPreparing)
	}
	return pause
}

// countIssued says when the next application may be made, after a certificate
// was issued.
func (s *joinState) countIssued(cred *hubCredential) {
	now := s.facts.Now
	if now.Sub(s.issuedAt) > issueQuiet {
		s.issued = 0
	}
	s.issued++
	s.issuedAt = now
	s.facts.ApplyAt = now.Add(issuePause(s.issued, cred.NotAfter.Sub(cred.NotBefore)))
}
