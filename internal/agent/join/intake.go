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

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
)

// Who creates a secret can have a token of any account in its namespace, so the
// operator makes those that the agent writes, and the agent only updates them.
//
// +kubebuilder:rbac:groups="",namespace=agent,resources=secrets,resourceNames=bootstrap-hub-kubeconfig,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=agent,resources=secrets,resourceNames=hub-kubeconfig-secret;hub-kubeconfig-pending,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=agent,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=agent,resources=configmaps,resourceNames=agent-join-status,verbs=get;update

// intake turns what came in into facts.
type intake struct {
	options MachineOptions
	state   *joinState
	inbox   *inbox
}

// gatherFacts turns all that came in since the last time into facts.
func (i *intake) gatherFacts(ctx context.Context) error {
	in := i.inbox.takeIncoming()
	i.state.facts.Now = i.options.Clock.Now()
	i.seenOnHub(in)
	i.readBootstrap(in.bootstrapSecret)
	if hub := i.state.facts.Hub; in.published != nil && hub != nil && hub.shouldFollow(*in.published) {
		i.state.facts.PublishedCA = in.published.CA
	}
	if in.hubSecret == nil && i.state.facts.HomeRead {
		return nil
	}
	if err := i.readHubSecret(ctx, in.hubSecret); err != nil {
		i.inbox.restoreHubSecret(in.hubSecret)
		return err
	}
	return nil
}

// seenOnHub takes what was seen on the hub.
func (i *intake) seenOnHub(in incomingFacts) {
	f := &i.state.facts
	i.seenOfRequest(in)
	if in.cluster != nil {
		if in.cluster.State != f.Cluster.State {
			i.state.verifies = 0
			f.VerifyAt = f.Now // worth asking again at once
		}
		if in.cluster.UID != "" && in.cluster.UID != f.Cluster.UID { // what the hub answered was of another one
			f.Auth, f.VerifyAt, f.Recheck = authUnknown, f.Now, true
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

// seenOfRequest takes what was seen of the certificate signing request.
func (i *intake) seenOfRequest(in incomingFacts) {
	f := &i.state.facts
	if in.csr != nil && f.Application != nil && in.csr.Name == f.CSR.Name {
		f.CSR = *in.csr
	}
	if in.csrProblem != nil {
		f.CSRProblem = nil
		if *in.csrProblem != nil {
			errors.As(explainBootstrapError("watching the certificate signing request "+f.CSR.Name, f.Bootstrap.Endpoint.Server, *in.csrProblem), &f.CSRProblem)
		}
	}
}

// readBootstrap takes the bootstrap kubeconfig from the secret, or from the
// file if there is no secret.
func (i *intake) readBootstrap(seen *seenSecret) {
	f := &i.state.facts
	where := fmt.Sprintf("the secret %s/%s", i.options.Namespace, BootstrapSecret)
	if i.bootstrapStays(seen) {
		return
	}
	data, problem := bootstrapData(seen, where)
	var files kubeconfig.Files
	inSecret := seen != nil && seen.secret != nil
	if inSecret {
		files = kubeconfig.SecretFiles(seen.secret.Data)
	}
	if inSecret && data == nil {
		f.Bootstrap = bootstrapFact{State: bootstrapMalformed, Problem: problem}
		i.setBootstrap(nil)
		return
	}
	if file := i.options.BootstrapFile; data == nil && file != "" {
		var err error
		if data, err = readIfThere(file); err != nil {
			problem = fmt.Sprintf("%s, and the file cannot be read: %v", problem, err)
		}
		files = kubeconfig.FolderFiles(filepath.Dir(file))
		inSecret = false
		where = "the file " + file
	}
	if data == nil {
		if seen != nil || f.Bootstrap.State != bootstrapMissing {
			f.Bootstrap = bootstrapFact{State: bootstrapMissing, Problem: problem}
		}
		i.setBootstrap(nil)
		return
	}
	i.state.bootstrapInSecret = inSecret
	i.useBootstrap(data, files, where)
}

// bootstrapStays reports whether what is known of the bootstrap kubeconfig holds
// until more is known.
func (i *intake) bootstrapStays(seen *seenSecret) bool {
	switch {
	case seen == nil: // the first answer is on its way, or there is no file to look at
		return i.state.facts.Bootstrap.State == bootstrapUnknown || i.bootstrapFromSecret()
	case seen.secret == nil && seen.err != nil:
		return i.state.bootstrapInSecret
	}
	return false
}

// bootstrapData returns the kubeconfig in the secret, or why there is none.
func bootstrapData(seen *seenSecret, where string) (data []byte, problem string) {
	switch {
	case seen != nil && seen.secret != nil:
		if data = seen.secret.Data[KeyKubeconfig]; len(data) == 0 {
			return nil, fmt.Sprintf("%s has no key %s", where, KeyKubeconfig)
		}
		return data, ""
	case seen != nil && seen.err != nil:
		return nil, fmt.Sprintf("%s cannot be read: %v", where, seen.err)
	default:
		return nil, where + " does not exist"
	}
}

// readIfThere returns the content of a file, nil if there is none.
func readIfThere(file string) ([]byte, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the flag names it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// bootstrapFromSecret reports whether the secret was seen, so that no file has to
// be looked at.
func (i *intake) bootstrapFromSecret() bool {
	return i.options.BootstrapFile == "" || i.state.bootstrapInSecret
}

// useBootstrap takes a kubeconfig, unless it is the one in use.
func (i *intake) useBootstrap(data []byte, files kubeconfig.Files, where string) {
	f := &i.state.facts
	hash := contentHash(data)
	if f.Bootstrap.Hash == hash {
		return
	}
	parsed, err := connect.ParseKubeconfig(data, files)
	if err != nil {
		f.Bootstrap = bootstrapFact{State: bootstrapMalformed, Problem: fmt.Sprintf("%s: %v", where, err), Hash: hash}
		i.setBootstrap(nil)
		return
	}
	f.Bootstrap = bootstrapFact{State: bootstrapPresent, Endpoint: parsed.Endpoint, Hash: hash}
	f.BootstrapRefused = false
	f.CSRProblem = nil
	i.setBootstrap(&bootstrapAccess{hash: hash, config: parsed})
}

func (i *intake) setBootstrap(access *bootstrapAccess) {
	if access == nil {
		i.state.bootstrapInSecret = false
	}
	i.state.bootstrap = access
}

// readHubSecret takes the hub credential, and at the start the application
// that waits for its answer.
func (i *intake) readHubSecret(ctx context.Context, seen *seenSecret) error {
	f := &i.state.facts
	if seen == nil {
		return nil // the first answer is on its way
	}
	if seen.err != nil {
		if f.HomeRead {
			return nil // what is known holds until more is known
		}
		return &stepError{
			reason:  operatorv1.JoinReasonHubCredentialInvalid,
			message: fmt.Sprintf("reading the secret %s/%s", i.options.Namespace, HubSecret), err: seen.err,
		}
	}
	secret := seen.secret
	if f.Hub != nil && (secret == nil || !bytes.Equal(secret.Data[KeyCertificate], f.Hub.CertPEM)) {
		// What was seen may be older than what the agent wrote.
		var err error
		if secret, err = getSecret(ctx, i.options.Home, i.options.Namespace, HubSecret); err != nil {
			return err
		}
	}
	if err := i.readPendingApplication(ctx); err != nil {
		return err
	}
	i.useHubSecret(secret)
	f.HomeRead = true
	return nil
}

func (i *intake) useHubSecret(secret *corev1.Secret) {
	f := &i.state.facts
	var cred *hubCredential
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
	f.Hub = cred
	f.PublishedCA = nil
	f.Auth = authUnknown
	i.state.strikes = 0
	i.state.verifies = 0
	if cred != nil && i.state.usesTransportOf(cred) {
		if err := i.state.hub.hub.ReplaceCertificates(cred.Endpoint.CA, cred.Certificate); err != nil {
			f.HubProblem = err.Error()
		}
	}
	if cred != nil && f.Application != nil && bytes.Equal(cred.KeyPEM, f.Application.KeyPEM) {
		f.Application = nil
		f.Applied = false
		f.CSR = csrFact{} // answered and kept before a restart
	}
}

// readPendingApplication reads, once, the application of a process before this one.
func (i *intake) readPendingApplication(ctx context.Context) error {
	f := &i.state.facts
	if f.HomeRead || f.Application != nil {
		return nil
	}
	secret, err := getSecret(ctx, i.options.Home, i.options.Namespace, PendingSecret)
	if err != nil || secret == nil || len(secret.Data) == 0 {
		return err
	}
	f.PendingStored = true
	if f.Application, err = parsePending(secret); err != nil {
		i.options.Log.Info("Ignoring the stored application for a certificate and making a new one", "problem", err.Error())
		return nil
	}
	f.CSR.Name = f.Application.requestName()
	return nil
}
