// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// errorExplainer says what the hub's answer to a request means for the user.
type errorExplainer func(what string, err error) error

const (
	// verifyEngaged is the least time between two questions to the hub about the
	// rights of the hub credential while the parts are at work.
	verifyEngaged = 10 * time.Second
	// strikesMax is the number of refusals in a row after which the agent
	// believes them, and strikeTime the time between them: a hub that starts may
	// refuse what it knows a moment later.
	strikesMax = 3
	strikeTime = time.Second
	// verifyPreparing is the least time between two questions while the agent
	// watches the ManagedCluster, which tells when the hub is done with it.
	verifyPreparing = time.Second
)

// restartJoin forgets the credential for a ManagedCluster that was deleted: the hub
// lets nobody in with it any more. The agent joins again under the same name, as
// another agent.
func (m *HandshakeMachine) restartJoin(ctx context.Context) error {
	f := &m.state.facts
	a, err := newApplication(identity{Cluster: f.Hub.Cluster, Agent: rand.String(agentNameLength)}, f.Bootstrap.Endpoint.Server)
	if err != nil {
		return err
	}
	if err := m.storeApplicationKey(ctx, a); err != nil {
		return err
	}
	if err := emptySecret(ctx, m.options.Home, m.options.Namespace, HubSecret); err != nil {
		return err
	}
	m.options.Log.Info("The ManagedCluster that the certificate was issued for was deleted; the agent joins again",
		"cluster", f.Hub.Cluster, "agent", f.Hub.Agent)
	f.Application = a
	f.PendingStored = true
	f.Applied = false
	f.CSR = csrFact{}
	f.Hub = nil
	f.Auth = authUnknown
	f.Cluster = clusterFact{}
	m.state.verifies = 0
	m.state.strikes = 0
	return nil
}

// registerCluster announces the cluster and applies for a certificate. All of it may
// have been done before.
func (m *HandshakeMachine) registerCluster(ctx context.Context) error {
	f := &m.state.facts
	hub, err := m.state.bootstrapClient()
	if err != nil {
		return err
	}
	id := identity{Cluster: f.clusterName(), Agent: rand.String(agentNameLength)}
	if id.Cluster == "" {
		id.Cluster = string(uuid.NewUUID())
	}
	if f.Hub != nil && f.Hub.Cluster == id.Cluster {
		id.Agent = f.Hub.Agent
	}
	if f.Application != nil && f.Application.Cluster == id.Cluster {
		id.Agent = f.Application.Agent
	}
	server := f.Bootstrap.Endpoint.Server
	explain := func(what string, err error) error { return explainBootstrapError(what, server, err) }
	application, err := m.prepareApplication(id, server)
	if err != nil {
		return err
	}
	var mc *clusterv1.ManagedCluster
	kept := false
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { mc, err = m.ensureManagedCluster(groupCtx, hub, id.Cluster); return err })
	group.Go(func() error {
		err := m.storeApplicationKey(ctx, application)
		kept = err == nil
		return err
	})
	err = group.Wait()
	if kept && f.Application != application {
		f.Application = application
		f.PendingStored = true
		f.Applied = false
		f.CSR = csrFact{}
	}
	if err != nil {
		return err
	}
	f.Cluster = clusterFactOf(mc, false)
	m.state.verifies = 0
	f.VerifyAt = time.Time{}
	m.state.clusterVersion = mc.ResourceVersion
	return m.submitCSR(ctx, hub, application, explain)
}

// renewCertificate applies for the next certificate.
func (m *HandshakeMachine) renewCertificate(ctx context.Context) error {
	hub, err := m.state.hubClient()
	if err != nil {
		return err
	}
	server := m.state.facts.Hub.Endpoint.Server
	explain := func(what string, err error) error { return explainHubError(what, server, err) }
	application, err := m.prepareApplication(m.state.facts.Hub.identity, server)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.storeApplicationKey(groupCtx, application) })
	group.Go(func() error { return checkPendingCSRs(groupCtx, hub, application, explain) })
	if err = group.Wait(); err == nil {
		err = m.submitCSR(ctx, hub, application, explain)
	}
	if err != nil {
		m.setRotation(metav1.ConditionFalse, clusterv1.ManagedClusterReasonClientCertificateUpdateFailed, toSentence(err.Error()))
	}
	return err
}

// prepareApplication returns the application that there is for the identity, or a new one.
func (m *HandshakeMachine) prepareApplication(id identity, server string) (*application, error) {
	if a := m.state.facts.Application; a != nil && a.identity == id && a.Server == server {
		return a, nil
	}
	return newApplication(id, server)
}

// storeApplicationKey stores the key of an application, unless it is stored.
func (m *HandshakeMachine) storeApplicationKey(ctx context.Context, a *application) error {
	if a == m.state.facts.Application {
		return nil
	}
	return putSecret(ctx, m.options.Home, pendingSecret(m.options.Namespace, a))
}

// submitCSR makes the certificate signing request of an application that is kept,
// unless the hub has it.
func (m *HandshakeMachine) submitCSR(ctx context.Context, hub client.Client, a *application, explain errorExplainer) error {
	f := &m.state.facts
	csr, err := a.buildCSR(m.options.ExpirationSeconds)
	if err != nil {
		return err
	}
	name := csr.Name
	f.Application = a
	f.PendingStored = true
	f.Applied = false
	f.CSR = csrFact{Name: name}
	err = hub.Create(ctx, csr)
	if apierrors.IsAlreadyExists(err) {
		csr = &certificatesv1.CertificateSigningRequest{}
		if err = hub.Get(ctx, client.ObjectKey{Name: name}, csr); err != nil {
			return explain(fmt.Sprintf("reading the certificate signing request %q", name), err)
		}
		if !a.isOurs(csr) {
			f.Application = nil
			f.CSR = csrFact{}
			return fmt.Errorf("certificate signing request %q is somebody else's: making another key", name)
		}
	}
	if err != nil {
		return explain(fmt.Sprintf("creating the certificate signing request %q", name), err)
	}
	m.options.Log.Info("The agent asks for a client certificate for the hub", "cluster", a.Cluster, "request", name, "key", a.keyFingerprint())
	f.Applied, f.CSR, f.CSRProblem = true, csrFactOf(name, csr), nil
	m.state.csrVersion = csr.ResourceVersion
	return nil
}

// storeCertificate keeps the certificate that was issued and uses it from now on.
func (m *HandshakeMachine) storeCertificate(ctx context.Context) error {
	f := &m.state.facts
	renewal := f.unusableReason() == ""
	endpoint := f.Bootstrap.Endpoint
	hash := f.Bootstrap.Hash
	givenCA := ""
	if renewal {
		endpoint = f.Hub.Endpoint
		hash = f.Hub.Bootstrap
		givenCA = f.Hub.GivenCA
	}
	cred, err := checkIssued(f.Application, endpoint, f.CSR.Certificate)
	if err != nil {
		f.CSR = csrFact{State: csrFailed, Name: f.CSR.Name, Detail: err.Error()}
		return nil //nolint:nilerr // the fact tells it, and is what has to change
	}
	cred.Bootstrap = hash
	cred.ClusterUID = f.Cluster.UID
	cred.GivenCA = givenCA
	if renewal {
		cred.ClusterUID = cmp.Or(cred.ClusterUID, f.Hub.ClusterUID)
	}
	secret, err := hubSecret(m.options.Namespace, cred)
	if err != nil {
		return err
	}
	if err := putSecret(ctx, m.options.Home, secret); err != nil {
		return err
	}
	f.Hub = cred
	f.HubProblem = ""
	f.Application = nil
	f.Applied = false
	f.CSR = csrFact{}
	m.state.verifies = 0
	m.state.strikes = 0
	f.VerifyAt = time.Time{}
	m.state.countIssued(cred)
	if f.Auth == authRefused || f.Engaged == nil {
		f.Auth = authUnknown
	}
	m.options.Log.Info("The agent has a new client certificate for the hub", "cluster", cred.Cluster, "agent", cred.Agent,
		"renewal", renewal, "validUntil", cred.NotAfter)
	if m.state.usesTransportOf(cred) {
		if err := m.state.hub.hub.ReplaceCertificates(cred.Endpoint.CA, cred.Certificate); err != nil {
			return err
		}
		m.setRotation(metav1.ConditionTrue, clusterv1.ManagedClusterReasonClientCertificateUpdated,
			fmt.Sprintf("The client certificate is valid until %s.", cred.NotAfter.UTC().Format(time.RFC3339)))
	}
	return nil
}

// storeMembership keeps with the credential, while it works, what it works for.
func (m *HandshakeMachine) storeMembership(ctx context.Context) error {
	f := &m.state.facts
	cred := *f.Hub
	cred.ClusterUID = cmp.Or(cred.ClusterUID, f.Cluster.UID)
	if f.Bootstrap.State == bootstrapPresent {
		cred.Bootstrap = f.Bootstrap.Hash
	}
	return updateCredential(ctx, m.options, m.state, &cred)
}

// trustPublishedCA keeps the CA that the hub publishes, and verifies the hub by it from now
// on. It remembers which one the user gave, as the bootstrap kubeconfig still has
// that.
func (m *HandshakeMachine) trustPublishedCA(ctx context.Context) error {
	f := &m.state.facts
	cred := *f.Hub
	switch {
	case f.Bootstrap.State == bootstrapPresent:
		cred.GivenCA = contentHash(f.Bootstrap.Endpoint.CA)
	case cred.GivenCA == "":
		cred.GivenCA = contentHash(cred.Endpoint.CA)
	}
	cred.Endpoint.CA = f.PublishedCA
	if err := updateCredential(ctx, m.options, m.state, &cred); err != nil {
		return err
	}
	f.PublishedCA = nil
	m.options.Log.Info("The agent verifies the hub by the authorities that the hub publishes now",
		"hub", cred.Endpoint.Server, "authorities", certs.PublicKeyPins(cred.Endpoint.CA))
	if !m.state.usesTransportOf(&cred) {
		return nil
	}
	return m.state.hub.hub.ReplaceCertificates(cred.Endpoint.CA, cred.Certificate)
}

// updateCredential stores the hub credential with something else beside its certificate.
func updateCredential(ctx context.Context, o MachineOptions, s *joinState, cred *hubCredential) error {
	secret, err := hubSecret(o.Namespace, cred)
	if err != nil {
		return err
	}
	if err := putSecret(ctx, o.Home, secret); err != nil {
		return err
	}
	s.facts.Hub = cred
	return nil
}

// verifyCredential asks the hub what the hub credential may do.
func (m *HandshakeMachine) verifyCredential(ctx context.Context) error {
	f := &m.state.facts
	f.Recheck = false
	f.VerifyAt = f.Now.Add(m.state.verifyPause(m.watches.running[slotCluster] != nil))
	m.state.verifies++
	hub, err := m.state.hubClient()
	if err != nil {
		return err
	}
	mc := &clusterv1.ManagedCluster{}
	err = hub.Get(ctx, client.ObjectKey{Name: f.Hub.Cluster}, mc)
	switch {
	case apierrors.IsUnauthorized(err):
		m.state.countRefusal(authRefused)
		if f.Auth != authRefused {
			m.reporter.setJoinStep(stepReasonOf(explainHubError("", "", err)), toSentence(explainHubError("asking for the ManagedCluster", f.Hub.Endpoint.Server, err).Error()))
		}
		return nil
	case apierrors.IsForbidden(err):
		if f.Engaged == nil {
			m.state.strikes = strikesMax
		}
		m.state.countRefusal(authForbidden)
		return nil
	case apierrors.IsNotFound(err):
		f.Auth, f.Cluster, m.state.strikes = authAdmitted, clusterFactOf(nil, f.Engaged != nil), 0
		return nil
	case err != nil:
		return explainHubError(fmt.Sprintf("reading ManagedCluster %q", f.Hub.Cluster), f.Hub.Endpoint.Server, err)
	}
	f.Cluster = clusterFactOf(mc, f.Engaged != nil)
	m.state.strikes = 0
	m.state.clusterVersion = mc.ResourceVersion
	f.Auth = authAdmitted
	if f.Cluster.State != clusterAccepted && f.Cluster.State != clusterPreparing {
		return nil
	}
	err = hub.Get(ctx, client.ObjectKey{Namespace: f.Hub.Cluster, Name: clusterv1.LeaseName}, &coordinationv1.Lease{})
	if err == nil || apierrors.IsNotFound(err) {
		f.Auth = authPermitted
		return nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil
	}
	return explainHubError(fmt.Sprintf("reading the lease of cluster %q", f.Hub.Cluster), f.Hub.Endpoint.Server, err)
}

func (m *HandshakeMachine) engageParts(ctx context.Context) error {
	f := &m.state.facts
	if _, err := m.state.hubClient(); err != nil {
		return err
	}
	if err := m.options.Engage(ctx, AcceptedAgent{Cluster: f.Hub.Cluster, Agent: f.Hub.Agent, Hub: m.state.hub.hub}); err != nil {
		return fmt.Errorf("starting the work for cluster %q: %w", f.Hub.Cluster, err)
	}
	f.Engaged = &engagement{identity: f.Hub.identity, Endpoint: f.Hub.Endpoint}
	f.Recheck = false
	m.state.verifies = 0
	m.options.Log.Info("The hub accepts the cluster", "cluster", f.Hub.Cluster, "hub", f.Hub.Endpoint.Server)
	return nil
}

func (m *HandshakeMachine) disengageParts() error {
	f := &m.state.facts
	m.options.Log.Info("The membership has ended or changes", "cluster", f.Engaged.Cluster, "hub", f.Engaged.Endpoint.Server)
	m.options.Disengage()
	f.Engaged = nil
	f.Auth = authUnknown
	f.VerifyAt = time.Time{}
	m.state.verifies = 0
	m.state.strikes = 0
	return nil
}

func (m *HandshakeMachine) deletePendingKey(ctx context.Context) error {
	if err := emptySecret(ctx, m.options.Home, m.options.Namespace, PendingSecret); err != nil {
		return err
	}
	m.state.facts.PendingStored = false
	return nil
}

// setRotation records how a renewal ended.
func (m *HandshakeMachine) setRotation(status metav1.ConditionStatus, reason, message string) {
	m.mu.Lock()
	m.rotation = &metav1.Condition{
		Type:   clusterv1.ManagedClusterConditionClusterCertificateRotated,
		Status: status, Reason: reason, Message: message,
	}
	m.mu.Unlock()
	if m.options.Rotated != nil {
		m.options.Rotated()
	}
}
