// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// joinWatches are those of the agent's own secrets, and of the request and the
// ManagedCluster that the latest decision asks for. What they see goes to the
// inbox.
type joinWatches struct {
	options MachineOptions
	state   *joinState
	inbox   *inbox
	group   *sync.WaitGroup
	running map[string]*runningWatch
}

// runningWatch is a watch that runs, and what it is for.
type runningWatch struct {
	key    string
	cancel context.CancelFunc
}

// Slots of watches.
const (
	slotCSR     = "csr"
	slotCluster = "cluster"
)

// followDecision makes exactly those watches run that the decision asks for.
func (w *joinWatches) followDecision(ctx context.Context, d joinDecision) {
	w.followCSR(ctx, d.FollowCSR)
	w.followCluster(ctx, d.FollowCluster)
}

func (w *joinWatches) followCSR(ctx context.Context, by credentialSource) {
	hub, who, err := w.state.clientOf(by)
	if hub == nil || err != nil {
		w.stopWatch(slotCSR)
		return
	}
	name := w.state.facts.CSR.Name
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source := watch.SingleSource(hub, csr, &certificatesv1.CertificateSigningRequestList{}, w.state.csrVersion)
	ensureWatch(ctx, w, slotCSR, who+"/"+name, source, func(in *incomingFacts, csr *certificatesv1.CertificateSigningRequest, err error) {
		if in.csrProblem = &err; err == nil {
			fact := csrFactOf(name, csr)
			in.csr = &fact
		}
	})
}

func (w *joinWatches) followCluster(ctx context.Context, by credentialSource) {
	hub, who, err := w.state.clientOf(by)
	if hub == nil || err != nil {
		w.stopWatch(slotCluster)
		return
	}
	name := w.state.facts.clusterName()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source := watch.SingleSource(hub, mc, &clusterv1.ManagedClusterList{}, w.state.clusterVersion)
	ensureWatch(ctx, w, slotCluster, who+"/"+name, source, func(in *incomingFacts, mc *clusterv1.ManagedCluster, err error) {
		if by == followByBootstrap {
			in.bootstrapErr = &err
		} else {
			in.hubErr = &err
		}
		if err == nil {
			fact := clusterFactOf(mc, false)
			in.cluster = &fact
		}
	})
}

// followHome follows the agent's own secrets.
func (w *joinWatches) followHome(ctx context.Context) {
	secret := func(name string, see func(*incomingFacts, *seenSecret)) {
		source := watch.SingleSource(w.options.Home, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: name}},
			&corev1.SecretList{}, "")
		run := watch.Watch[*corev1.Secret]{Source: source, Clock: w.options.Clock, Handler: watch.SingleHandler[*corev1.Secret](func(s *corev1.Secret, err error) {
			w.inbox.putIncoming(func(in *incomingFacts) { see(in, &seenSecret{secret: s, err: err}) })
		})}
		w.group.Go(func() { run.RunReflector(ctx) })
	}
	secret(BootstrapSecret, func(in *incomingFacts, s *seenSecret) { in.bootstrapSecret = s })
	secret(HubSecret, func(in *incomingFacts, s *seenSecret) { in.hubSecret = s })
}

// ensureWatch starts to watch a single object in the slot, in place of another one. Tell
// puts what is seen into the inbox.
func ensureWatch[T client.Object](ctx context.Context, w *joinWatches, slot, key string, source watch.ObjectSource[T], tell func(in *incomingFacts, object T, err error)) {
	if running := w.running[slot]; running != nil && running.key == key {
		return
	}
	w.stopWatch(slot)
	ctx, cancel := context.WithCancel(ctx)
	run := watch.Watch[T]{Source: source, Clock: w.options.Clock, Handler: watch.SingleHandler[T](func(object T, err error) {
		w.inbox.putFromWatch(ctx, func(in *incomingFacts) { tell(in, object, err) })
	})}
	w.running[slot] = &runningWatch{key: key, cancel: cancel}
	w.group.Go(func() { run.RunReflector(ctx) })
}

// stopWatch ends a watch. The next one begins with what is known, and may have nothing to
// tell for hours, so what failed for the one that ends is not to be taken for its failure.
func (w *joinWatches) stopWatch(slot string) {
	if running := w.running[slot]; running != nil {
		running.cancel()
		delete(w.running, slot)
		w.inbox.forgetFailure(slot)
	}
}
