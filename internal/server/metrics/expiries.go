// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync"
	"time"
)

// Expiries are when certificates expire that the component keeps. It is safe for
// concurrent use.
type Expiries struct {
	*ComputedGauge

	mu sync.Mutex
	of map[string]map[string]time.Time // by owner and certificate
}

// NewExpiries returns the metric. Its names of certificates are of what they are
// for; of those of several owners it shows which expires first.
func NewExpiries() *Expiries {
	e := &Expiries{of: map[string]map[string]time.Time{}}
	e.ComputedGauge = NewComputedGauge(expiryDefinition(), e.findExpiries)
	return e
}

func expiryDefinition() Definition {
	return Definition{
		Name:   "capstan_certificate_expiry_timestamp_seconds",
		Help:   "When the certificate expires that the component uses or renews, in seconds since 1970. Of several for the same purpose it is the first to expire. Purposes are agent-client, webhook-serving, apiserver-serving, debug-serving, hub-ca, control-plane and control-plane-ca.",
		Labels: []string{"certificate"},
	}
}

// NewExpiriesOf returns the metric for certificates that a function finds when it
// is read.
func NewExpiriesOf(find func(context.Context, func(certificate string, expires time.Time)) error) *ComputedGauge {
	return NewComputedGauge(expiryDefinition(), func(ctx context.Context, set SetValue) error {
		first := firstExpiries{}
		if err := find(ctx, first.addExpiry); err != nil {
			return err
		}
		first.setValues(set)
		return nil
	})
}

// ReplaceOwner says which certificates there are of an owner, such as a custom resource;
// none if it is gone.
func (e *Expiries) ReplaceOwner(owner string, expires map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(expires) == 0 {
		delete(e.of, owner)
		return
	}
	e.of[owner] = expires
}

func (e *Expiries) findExpiries(_ context.Context, set SetValue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := firstExpiries{}
	for _, certificates := range e.of {
		for certificate, expires := range certificates {
			first.addExpiry(certificate, expires)
		}
	}
	first.setValues(set)
	return nil
}

// firstExpiries are the certificates that expire first, by purpose.
type firstExpiries map[string]time.Time

func (f firstExpiries) addExpiry(certificate string, expires time.Time) {
	if known, ok := f[certificate]; !ok || expires.Before(known) {
		f[certificate] = expires
	}
}

func (f firstExpiries) setValues(set SetValue) {
	for certificate, expires := range f {
		set(float64(expires.Unix()), certificate)
	}
}
