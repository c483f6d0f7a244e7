// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/agent/connect"
)

// inbox keeps what watches and others see until the loop takes it.
type inbox struct {
	kick     func() // tells the loop that there is something
	mu       sync.Mutex
	incoming incomingFacts
}

// incomingFacts is what came in since the loop looked last. Nil is nothing new.
type incomingFacts struct {
	bootstrapSecret *seenSecret
	hubSecret       *seenSecret
	csr             *csrFact
	csrProblem      *error
	cluster         *clusterFact
	bootstrapErr    *error
	hubErr          *error
	refused         bool
	published       *connect.HubEndpoint
}

// seenSecret is a secret, or nil if there is none, or why that is not known.
type seenSecret struct {
	secret *corev1.Secret
	err    error
}

func (b *inbox) putIncoming(change func(*incomingFacts)) {
	b.mu.Lock()
	change(&b.incoming)
	b.mu.Unlock()
	b.kick()
}

// putFromWatch is putIncoming by a watch. It keeps nothing once the watch has been ended.
func (b *inbox) putFromWatch(watching context.Context, change func(*incomingFacts)) {
	b.mu.Lock()
	ended := watching.Err() != nil
	if !ended {
		change(&b.incoming)
	}
	b.mu.Unlock()
	if !ended {
		b.kick()
	}
}

// forgetFailure drops what failed for the watch in a slot, which has been ended.
func (b *inbox) forgetFailure(slot string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch slot {
	case slotCSR:
		b.incoming.csrProblem = nil
	case slotCluster:
		b.incoming.bootstrapErr = nil
		b.incoming.hubErr = nil
	}
}

// takeIncoming returns what came in and leaves nothing.
func (b *inbox) takeIncoming() incomingFacts {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.incoming
	b.incoming = incomingFacts{}
	return in
}

// restoreHubSecret has the hub secret looked at again, unless a newer one came in.
func (b *inbox) restoreHubSecret(seen *seenSecret) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.incoming.hubSecret == nil {
		b.incoming.hubSecret = seen
	}
}
