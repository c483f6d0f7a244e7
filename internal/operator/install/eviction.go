// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/operator/probe"
)

// Eviction is the removal of what is installed on a cluster that cannot be
// reached: it waits for the cluster, and after a while leaves all that behind.
type Eviction struct {
	// Cluster is what the cluster is called in messages, Secret the
	// NAMESPACE/NAME of the secret that leads there.
	Cluster, Secret string
	// Annotation of the object keeps since when, for operators that restart.
	Annotation string
	// After is how long it waits, Retry how often it looks again.
	After, Retry time.Duration
}

// EvictUnreachable returns a WaitError as long as the cluster is waited for, and nil once
// it is given up. One that answers but refuses the credential is waited for
// until its administrator decides.
func (p *ReconcilePass[O]) EvictUnreachable(ctx context.Context, c client.Client, e Eviction, outcome probe.CheckOutcome) error {
	if !outcome.Verdict.IsGone() {
		return WaitError{After: e.Retry, Message: fmt.Sprintf(
			"objects on the %s cannot be removed: %s; fix secret %q, or delete it to leave them behind",
			e.Cluster, outcome.Message, e.Secret)}
	}
	since, err := time.Parse(time.RFC3339, p.Object.GetAnnotations()[e.Annotation])
	if err != nil { // there is none yet
		since = p.start
		if err := p.ChangeMeta(ctx, c, func(object client.Object) bool {
			annotations := object.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[e.Annotation] = since.UTC().Format(time.RFC3339)
			object.SetAnnotations(annotations)
			return true
		}); err != nil {
			return err
		}
	}
	until := since.Add(e.After)
	if left := until.Sub(p.start); left > 0 {
		return WaitError{After: min(left, e.Retry), Message: fmt.Sprintf(
			"objects on the %s cannot be removed: %s; they are left behind after %s",
			e.Cluster, outcome.Message, until.UTC().Format(time.RFC3339))}
	}
	return nil
}

// EndEviction ends an eviction, as the cluster answers again.
func (p *ReconcilePass[O]) EndEviction(ctx context.Context, c client.Client, e Eviction) error {
	return p.ChangeMeta(ctx, c, func(object client.Object) bool {
		annotations := object.GetAnnotations()
		_, was := annotations[e.Annotation]
		delete(annotations, e.Annotation)
		object.SetAnnotations(annotations)
		return was
	})
}
