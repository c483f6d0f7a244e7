// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	// hubTimeout is how long a request to the API server may take.
	hubTimeout = 10 * time.Second
	// hubQPS is how many requests a second the operator makes there at most, which
	// matters when it stores all Secrets anew.
	hubQPS = 50
	// reconnectAfter is how long a client of an API server is used.
	reconnectAfter = 24 * time.Hour
	// operatorUser is whom the API server takes the operator for.
	operatorUser = "capstan:control-plane-operator"
	// outOfSpace is in etcd's answer to all writes but deletions once its database
	// has reached its limit (https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota).
	outOfSpace = "database space exceeded"
	// probeLease is written to find out whether etcd stores anything.
	probeLease = "control-plane-operator"
)

// hubClients has a client for each API server that the operator has installed.
type hubClients struct {
	connect func(*rest.Config) (client.Client, error)
	clock   clock.PassiveClock

	mu    sync.Mutex
	known map[types.NamespacedName]knownHub
}

type knownHub struct {
	client client.Client
	// trust tells what the client was made of.
	trust string
	since time.Time
}

func newHubClients(connect func(*rest.Config) (client.Client, error), c clock.PassiveClock) *hubClients {
	return &hubClients{connect: connect, clock: c, known: map[types.NamespacedName]knownHub{}}
}

// clientForPass returns a client of the API server. Its certificate is made here and stored
// nowhere: it is of the group that no role can take anything from, so that the
// operator can repair roles.
func (h *hubClients) clientForPass(p *controlPlanePass) (client.Client, error) {
	key := client.ObjectKeyFromObject(p.Object)
	bundle := p.bundles[manifests.ServingAuthority]
	signer := p.signers[manifests.ClientAuthority]
	trust := hashParts(bundle, signer.CertPEM)
	now := h.clock.Now()
	if known, ok := h.lookupClient(key); ok && known.trust == trust && now.Before(known.since.Add(reconnectAfter)) {
		return known.client, nil
	}
	// Others are not kept waiting for it: who has the namespace chooses the signer.
	pair, err := certs.NewLeaf(signer, certs.Leaf{User: operatorUser, Groups: []string{"system:masters"}}, now)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host: p.plane.InternalURL(), Timeout: hubTimeout, QPS: hubQPS, Burst: hubQPS,
		TLSClientConfig: rest.TLSClientConfig{CAData: bundle, CertData: pair.CertPEM, KeyData: pair.KeyPEM},
	}
	// Who has the namespace has the keys there, and can answer in its place.
	dial.LimitAnswers(config)
	made, err := h.connect(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	h.storeClient(key, knownHub{client: made, trust: trust, since: now})
	return made, nil
}

func (h *hubClients) lookupClient(key types.NamespacedName) (known knownHub, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok = h.known[key]
	return known, ok
}

func (h *hubClients) storeClient(key types.NamespacedName, made knownHub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[key] = made
}

// forgetClient drops the client of an API server that is gone.
func (h *hubClients) forgetClient(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, key)
}

// applyHubObjects makes the first objects in the API server itself. Those that tell where it
// is come once it has an address.
func (i *controlPlaneInstallation) applyHubObjects(ctx context.Context, p *controlPlanePass) error {
	there, err := i.hubs.clientForPass(p)
	if err != nil {
		return i.notReachable(p, err)
	}
	if p.plane.Endpoint.Host == "" {
		return nil
	}
	objects, err := manifests.HubObjects(p.plane, p.bundles[manifests.ServingAuthority])
	if err != nil {
		return err
	}
	// What is there is not the host's, so it is in no record of the pass.
	if _, err := render.NewApplier(there, there, FieldOwner).Apply(ctx, objects...); err != nil {
		return i.notReachable(p, err)
	}
	return i.checkEtcdWrites(ctx, p, there)
}

// notReachable tells that the API server does not do what it is asked for: its
// Service leads to it a little later than its pods are ready.
func (h *hostCluster) notReachable(p *controlPlanePass, err error) error {
	if strings.Contains(err.Error(), outOfSpace) {
		return reportEtcdFull(p)
	}
	return install.UnreachableError{
		Reason: fleetv1alpha1.ControlPlaneReasonNotReachable, After: waitRetry,
		Message: fmt.Sprintf("the API server at %s does not serve requests as expected: %v", p.plane.InternalURL(), err),
	}
}

// applyKubeconfigSecret writes the kubeconfig for others.
func (i *controlPlaneInstallation) applyKubeconfigSecret(ctx context.Context, p *controlPlanePass) error {
	p.facts.Kubeconfig = false
	namespace, name := p.plane.KubeconfigSecret()
	if err := i.ensureOwnedIn(ctx, p, &corev1.Secret{}, client.ObjectKey{Namespace: namespace, Name: name}); err != nil {
		return err
	}
	secret, err := manifests.KubeconfigSecret(p.plane, p.bundles[manifests.ServingAuthority], p.admin)
	if err != nil {
		return err
	}
	if err := p.Apply(ctx, i.target, secret); err != nil {
		return err
	}
	p.facts.Kubeconfig = true
	return nil
}

// checkEtcdWrites finds out whether etcd stores what it is given. It takes a write, so it is
// asked only while the controller manager does not run: that is the first to end
// when its Lease cannot be renewed, and does not say why.
func (i *controlPlaneInstallation) checkEtcdWrites(ctx context.Context, p *controlPlanePass, there client.Client) error {
	if w := p.facts.ControllerManager; w == nil || w.Ready > 0 {
		return nil
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: probeLease}}
	_, err := controllerutil.CreateOrUpdate(ctx, there, lease, func() error {
		lease.Spec.HolderIdentity = ptr.To(operatorUser)
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(i.Clock.Now()))
		return nil
	})
	if err != nil {
		return i.notReachable(p, fmt.Errorf("writing the Lease %q: %w", client.ObjectKeyFromObject(lease), err))
	}
	return nil
}

// reportEtcdFull tells that etcd is out of space.
func reportEtcdFull(p *controlPlanePass) error {
	p.facts.EtcdReason = fleetv1alpha1.ControlPlaneReasonEtcdOutOfSpace
	p.facts.EtcdProblem = "etcd stores nothing more, as its database has reached its limit: delete what the hub does not need, " +
		"wait ten minutes for etcd to be compacted, and defragment its members and disarm their alarm, " +
		"as \"When etcd is full\" in docs/spec/fleet/controlplane.md describes"
	return install.UnreachableError{Reason: p.facts.EtcdReason, Message: p.facts.EtcdProblem, After: brokenRetry}
}
