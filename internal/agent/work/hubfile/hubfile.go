// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hubfile connects an agent to the hub in a kubeconfig file, and
// reloads the file and those that it refers to when they are renewed.
//
// It is for an agent whose registration is another process. A file that is not
// there yet, or cannot be used, is waited for. A new certificate is taken over
// by the connection that there is; another hub replaces the connection. The
// process goes on in all cases.
//
// There is a connection only while the hub accepts the cluster: a hub that
// takes back the acceptance takes back the rights of the agent, too, but does
// not end the watches that are open.
package hubfile

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// lookEvery is how often the files are looked at. They are read from memory,
// as they come from a Secret.
const lookEvery = time.Second

// clusterNameFile is the file beside the kubeconfig that has the name of the cluster.
const clusterNameFile = "cluster-name"

// FollowerOptions of a KubeconfigFollower.
type FollowerOptions struct {
	// File is the kubeconfig.
	File string
	// ClusterName defaults to what the file cluster-name beside File says.
	ClusterName string
	AgentID     string
	// Member is the cluster to work on.
	Member *rest.Config
	// QPS and Burst limit the requests to the hub; zero is no limit.
	QPS   float32
	Burst int
	// Registry engages the connection.
	Registry *fleet.Registry
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// KubeconfigFollower keeps the connection that the file asks for, while the hub accepts
// the cluster.
type KubeconfigFollower struct {
	options FollowerOptions
	current *fileCredential
	hub     *connect.HubTransport
	member  *membership
	problem syncProblem
}

// syncProblem is why works are not applied, or a file is not taken over.
type syncProblem struct {
	// kind is compared to find out whether this was logged.
	kind, text string
}

// fileCredential is what the files say.
type fileCredential struct {
	cluster  string
	endpoint connect.HubEndpoint
	// cert and key are PEM.
	cert, key []byte
}

// NewKubeconfigFollower returns a KubeconfigFollower.
func NewKubeconfigFollower(options FollowerOptions) *KubeconfigFollower {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &KubeconfigFollower{options: options}
}

// RunFollower follows the files and the acceptance until ctx ends, and then ends the
// connection.
func (f *KubeconfigFollower) RunFollower(ctx context.Context) error {
	defer f.closeConnection()
	for {
		again := f.runRound(ctx)
		var changed <-chan struct{} // nil blocks for ever
		if f.member != nil {
			changed = f.member.changed
		}
		timer := f.options.Clock.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// runRound looks at everything once and returns when to do it again at the latest.
func (f *KubeconfigFollower) runRound(ctx context.Context) time.Duration {
	fileErr := f.reloadFiles(ctx)
	again := lookEvery
	why := syncProblem{}
	if f.member != nil {
		var soon time.Duration
		if soon, why = f.member.syncEngagement(ctx); soon > 0 {
			again = min(again, soon)
		}
	}
	if ctx.Err() != nil {
		return again
	}
	if fileErr != nil {
		why = syncProblem{kind: fileErr.Error(), text: "waiting for a hub kubeconfig that works: " + fileErr.Error()}
	}
	f.logProblem(why)
	return again
}

// logProblem logs a problem when it comes, changes or goes.
func (f *KubeconfigFollower) logProblem(why syncProblem) {
	before := f.problem
	f.problem = why
	switch {
	case why.kind != "":
		if why.kind != before.kind {
			f.options.Log.Info("Works cannot be taken from the hub", "file", f.options.File, "problem", why.text)
		}
	case f.member != nil && f.member.engaged && (before.kind != "" || !f.member.told):
		f.member.told = true
		f.options.Log.Info("Works of the cluster are taken from the hub", "cluster", f.current.cluster, "hub", f.current.endpoint.Server)
	}
}

// reloadFiles reads the files and acts on what changed. A connection that there is
// goes on as long as the files cannot be used.
func (f *KubeconfigFollower) reloadFiles(ctx context.Context) error {
	read, err := f.readFiles()
	if err != nil {
		return err
	}
	if f.current != nil && f.current.cluster == read.cluster && f.current.endpoint.SameConnection(read.endpoint) {
		if f.current.endpoint.Equal(read.endpoint) && bytes.Equal(f.current.cert, read.cert) && bytes.Equal(f.current.key, read.key) {
			return nil
		}
		certificate, err := f.loadCertificate(read)
		if err != nil {
			return err
		}
		if err := f.hub.ReplaceCertificates(read.endpoint.CA, certificate); err != nil {
			return fmt.Errorf("taking over the renewed certificate or CA: %w", err)
		}
		f.current = read
		f.member.certificateRenewed(ctx)
		return nil
	}
	return f.connectHub(ctx, read)
}

// connectHub replaces the way to the hub. The connection is engaged when the hub
// accepts the cluster.
func (f *KubeconfigFollower) connectHub(ctx context.Context, read *fileCredential) error {
	certificate, err := f.loadCertificate(read)
	if err != nil {
		return err
	}
	way, err := connect.NewHubTransport(read.endpoint, certificate, nil)
	if err != nil {
		return fmt.Errorf("preparing the connection to the hub: %w", err)
	}
	member, err := newMembership(&f.options, way, read.cluster)
	if err != nil {
		way.Close()
		return err
	}
	f.closeConnection()
	f.hub = way
	f.current = read
	f.member = member
	member.followCluster(ctx)
	return nil
}

// closeConnection ends the connection.
func (f *KubeconfigFollower) closeConnection() {
	if f.current == nil {
		return
	}
	f.member.closeMembership()
	f.hub.Close()
	f.current = nil
	f.member = nil
}

// loadCertificate returns the certificate of a credential if it can be used now.
func (f *KubeconfigFollower) loadCertificate(read *fileCredential) (tls.Certificate, error) {
	certificate, err := certs.KeyPair(read.cert, read.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the client certificate and key of the hub kubeconfig do not match or are not PEM: %w", err)
	}
	if now := f.options.Clock.Now(); certificate.Leaf != nil && now.After(certificate.Leaf.NotAfter) {
		return tls.Certificate{}, fmt.Errorf("the client certificate of the hub kubeconfig expired at %s; the registration agent has to renew it",
			certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return certificate, nil
}

// readFiles reads the files.
func (f *KubeconfigFollower) readFiles() (*fileCredential, error) {
	data, err := os.ReadFile(f.options.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("the file does not exist; the registration agent writes it when the hub has accepted the cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the hub kubeconfig: %w", err)
	}
	dir := filepath.Dir(f.options.File)
	parsed, err := connect.ParseKubeconfig(data, kubeconfig.FolderFiles(dir))
	if err != nil {
		return nil, err
	}
	config := parsed.Config
	if len(config.CertData) == 0 || len(config.KeyData) == 0 {
		return nil, errors.New("the hub kubeconfig has no client certificate and key; no other credential is supported")
	}
	read := &fileCredential{cluster: f.options.ClusterName, endpoint: parsed.Endpoint, cert: config.CertData, key: config.KeyData}
	if read.cluster == "" {
		name, err := os.ReadFile(filepath.Join(dir, clusterNameFile)) //nolint:gosec // it is the directory that the flag names
		if read.cluster = strings.TrimSpace(string(name)); err != nil || read.cluster == "" {
			return nil, fmt.Errorf("the cluster name is unknown: set --spoke-cluster-name, or provide a file %q next to the hub kubeconfig", clusterNameFile)
		}
	}
	return read, nil
}
