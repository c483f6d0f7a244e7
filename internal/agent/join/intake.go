// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/kubeconfig"
	"github.com/capstan-io/capstan/internal/watch"
)

// Who creates a secret can have a token of any account in its namespace, so the
// operator makes those that the agent writes, and the agent only updates them.
//
// +kubebuilder:rbac:groups="",namespace=agent,resources=secrets,resourceNames=bootstrap-hub-kubeconfig,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=agent,resources=secrets,resourceNames=hub-kubeconfig-secret;hub-kubeconfig-pending,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=agent,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=agent,resources=configmaps,resourceNames=agent-join-status,verbs=get;update

// followHome follows the agent's own secrets.
func (m *Machine) followHome(ctx context.Context) {
	secret := func(name string, see func(*incoming, *seenSecret)) {
		source := watch.Single(m.options.Home, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.options.Namespace, Name: name}},
			&corev1.SecretList{}, "")
		run := watch.Watch[*corev1.Secret]{Source: source, Clock: m.options.Clock, Handler: watch.See[*corev1.Secret](func(s *corev1.Secret, err error) {
			m.see(func(in *incoming) { see(in, &seenSecret{secret: s, err: err}) })
		})}
		m.running.Go(func() { run.Run(ctx) })
	}
	secret(BootstrapSecret, func(in *incoming, s *seenSecret) { in.bootstrapSecret = s })
	secret(HubSecret, func(in *incoming, s *seenSecret) { in.hubSecret = s })
}

// intake turns what came in into facts.
func (m *Machine) intake(ctx context.Context) error {
	m.mu.Lock()
	in := m.incoming
	m.incoming = incoming{}
	m.mu.Unlock()
	m.facts.Now = m.options.Clock.Now()
	m.intakeHub(in)
	m.intakeBootstrap(in.bootstrapSecret)
	if in.hubSecret == nil && m.facts.HomeRead {
		return nil
	}
	if err := m.intakeHubSecret(ctx, in.hubSecret); err != nil {
		m.mu.Lock()
		if m.incoming.hubSecret == nil {
			m.incoming.hubSecret = in.hubSecret // look at it again
		}
		m.mu.Unlock()
		return err
	}
	return nil
}

// intakeHub takes what was seen on the hub.
func (m *Machine) intakeHub(in incoming) {
	f := &m.facts
	if in.csr != nil && f.Application != nil && in.csr.Name == f.CSR.Name {
		f.CSR = *in.csr
	}
	if in.csrProblem != nil {
		f.CSRProblem = nil
		if *in.csrProblem != nil {
			errors.As(byBootstrap("watching the certificate signing request "+f.CSR.Name, f.Bootstrap.Endpoint.Server, *in.csrProblem), &f.CSRProblem)
		}
	}
	if in.cluster != nil {
		if in.cluster.State != f.Cluster.State {
			m.verifies, f.VerifyAt = 0, f.Now // worth asking again at once
		}
		f.Cluster = *in.cluster
	}
	if in.bootstrapErr != nil {
		f.BootstrapRefused = apierrors.IsUnauthorized(*in.bootstrapErr) || apierrors.IsForbidden(*in.bootstrapErr)
	}
	if in.hubErr != nil && (apierrors.IsUnauthorized(*in.hubErr) || apierrors.IsForbidden(*in.hubErr)) && f.Engaged == nil {
		f.Auth = authUnknown // ask again
	}
	f.Recheck = (f.Recheck || in.refused) && f.Engaged != nil
}

// intakeBootstrap takes the bootstrap kubeconfig from the secret, or from the
// file if there is no secret.
func (m *Machine) intakeBootstrap(seen *seenSecret) {
	f := &m.facts
	where := fmt.Sprintf("the secret %s/%s", m.options.Namespace, BootstrapSecret)
	var data []byte
	var files kubeconfig.Files
	var inSecret bool
	var problem string
	switch {
	case seen == nil && f.Bootstrap.State != bootstrapUnknown && m.bootstrapFromSecret():
		return
	case seen != nil && seen.secret != nil:
		files, inSecret = kubeconfig.KeysOf(seen.secret.Data), true
		if data = seen.secret.Data[KeyKubeconfig]; len(data) == 0 {
			f.Bootstrap = bootstrapFact{State: bootstrapMalformed, Problem: fmt.Sprintf("%s has no key %s", where, KeyKubeconfig)}
			m.setBootstrap(nil)
			return
		}
	case seen != nil && seen.err != nil && m.bootstrapInSecret:
		return // what is known holds until more is known
	case seen == nil && f.Bootstrap.State == bootstrapUnknown:
		return // the first answer is on its way
	case seen != nil && seen.err != nil:
		problem = fmt.Sprintf("%s cannot be read: %v", where, seen.err)
	default:
		problem = where + " does not exist"
	}
	if file := m.options.BootstrapFile; data == nil && file != "" {
		var err error
		if data, err = readIfThere(file); err != nil {
			problem = fmt.Sprintf("%s, and the file cannot be read: %v", problem, err)
		}
		files, inSecret, where = kubeconfig.Beside(filepath.Dir(file)), false, "the file "+file
	}
	if data == nil {
		if seen != nil || f.Bootstrap.State != bootstrapMissing {
			f.Bootstrap = bootstrapFact{State: bootstrapMissing, Problem: problem}
		}
		m.setBootstrap(nil)
		return
	}
	m.bootstrapInSecret = inSecret
	m.useBootstrap(data, files, where)
}

// readIfThere returns the content of a file, nil if there is none.
func readIfThere(file string) ([]byte, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the flag names it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// bootstrapFromSecret tells whether the secret was seen, so that no file has to
// be looked at.
func (m *Machine) bootstrapFromSecret() bool {
	return m.options.BootstrapFile == "" || m.bootstrapInSecret
}

// useBootstrap takes a kubeconfig, unless it is the one in use.
func (m *Machine) useBootstrap(data []byte, files kubeconfig.Files, where string) {
	f := &m.facts
	hash := hashOf(data)
	if f.Bootstrap.Hash == hash {
		return
	}
	parsed, err := connect.ParseKubeconfig(data, files)
	if err != nil {
		f.Bootstrap = bootstrapFact{State: bootstrapMalformed, Problem: fmt.Sprintf("%s: %v", where, err), Hash: hash}
		m.setBootstrap(nil)
		return
	}
	f.Bootstrap = bootstrapFact{State: bootstrapPresent, Endpoint: parsed.Endpoint, Hash: hash}
	f.BootstrapRefused, f.CSRProblem = false, nil
	m.setBootstrap(&bootstrapAccess{hash: hash, config: parsed})
}

func (m *Machine) setBootstrap(access *bootstrapAccess) {
	if access == nil {
		m.bootstrapInSecret = false
	}
	m.bootstrap = access
}

// intakeHubSecret takes the hub credential, and at the start the application
// that waits for its answer.
func (m *Machine) intakeHubSecret(ctx context.Context, seen *seenSecret) error {
	f := &m.facts
	if seen == nil {
		return nil // the first answer is on its way
	}
	if seen.err != nil {
		if f.HomeRead {
			return nil // what is known holds until more is known
		}
		return &stepError{
			reason:  operatorv1.JoinReasonHubCredentialInvalid,
			message: fmt.Sprintf("reading the secret %s/%s", m.options.Namespace, HubSecret), err: seen.err,
		}
	}
	secret := seen.secret
	if f.Hub != nil && (secret == nil || !bytes.Equal(secret.Data[KeyCertificate], f.Hub.CertPEM)) {
		// What was seen may be older than what the agent wrote.
		var err error
		if secret, err = getSecret(ctx, m.options.Home, m.options.Namespace, HubSecret); err != nil {
			return err
		}
	}
	if err := m.intakePending(ctx); err != nil {
		return err
	}
	m.takeHubSecret(secret)
	f.HomeRead = true
	return nil
}

func (m *Machine) takeHubSecret(secret *corev1.Secret) {
	f := &m.facts
	var cred *credential
	f.HubProblem = ""
	if secret != nil {
		var err error
		if cred, err = parseHubSecret(secret); err != nil {
			f.HubProblem = err.Error()
		}
	}
	if cred != nil && f.Hub != nil && bytes.Equal(cred.CertPEM, f.Hub.CertPEM) {
		return
	}
	f.Hub, f.Auth, m.strikes, m.verifies = cred, authUnknown, 0, 0
	if cred != nil && m.hub != nil && m.hub.identity == cred.identity && m.hub.Endpoint.Equal(cred.Endpoint) {
		if err := m.hub.hub.Replace(cred.Certificate); err != nil {
			f.HubProblem = err.Error()
		}
	}
	if cred != nil && f.Application != nil && bytes.Equal(cred.KeyPEM, f.Application.KeyPEM) {
		f.Application, f.Applied, f.CSR = nil, false, csrFact{} // answered and kept before a restart
	}
}

// intakePending reads, once, the application of a process before this one.
func (m *Machine) intakePending(ctx context.Context) error {
	f := &m.facts
	if f.HomeRead || f.Application != nil {
		return nil
	}
	secret, err := getSecret(ctx, m.options.Home, m.options.Namespace, PendingSecret)
	if err != nil || secret == nil || len(secret.Data) == 0 {
		return err
	}
	f.PendingStored = true
	if f.Application, err = parsePending(secret); err != nil {
		m.options.Log.Info("Ignoring the stored application for a certificate and making a new one", "problem", err.Error())
		return nil
	}
	f.CSR.Name, err = f.Application.name()
	return err
}
