// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// lookEvery is how often a command that waits looks.
const lookEvery = 500 * time.Millisecond

// readableBinding is a Binding that a client knows.
type readableBinding interface {
	workv1alpha2.Binding
	client.Object
}

// awaitTakenOver waits until the object in the cluster is the hub's, and makes sure that it
// is the same one as before.
func (p *promotionRun) awaitTakenOver(ctx, patience context.Context) error {
	for {
		applied, missing, err := p.isApplied(ctx)
		if err != nil {
			return err
		}
		if applied {
			return p.checkSameObject(ctx)
		}
		p.steps.ShowWaiting("%s", missing)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.Done():
			return timedOut(context.Cause(patience), fmt.Sprintf("The hub continues in the background; \"%s\" shows what it is waiting for.", p.followUpCommand()),
				"%s is on the hub, and its copy in cluster %s is not the hub's yet: %s", p.promotedObjectName(), p.cluster, missing)
		case <-time.After(lookEvery):
		}
	}
}

// isApplied reports whether the binding says that the cluster has the object, or what is
// missing.
func (p *promotionRun) isApplied(ctx context.Context) (is bool, missing string, err error) {
	for _, name := range claims.BindingNames(p.kind.GroupVersionKind, p.name) {
		var b readableBinding = &workv1alpha2.ResourceBinding{}
		if p.namespace == "" {
			b = &workv1alpha2.ClusterResourceBinding{}
		}
		err := p.reads.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, b)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, "", err
		}
		of := b.BindingSpec().Resource
		if schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind() != p.kind.GroupVersionKind.GroupKind() {
			continue
		}
		for _, item := range b.BindingStatus().AggregatedStatus {
			if item.ClusterName == p.cluster {
				return item.Applied, "the cluster reports: " + item.AppliedMessage, nil
			}
		}
		return false, "it is not sent to the cluster yet", nil
	}
	return false, "the policy has not claimed it yet", nil
}

// checkSameObject makes sure that the object in the cluster is the one that was there.
func (p *promotionRun) checkSameObject(ctx context.Context) error {
	now := emptyObject(p.kind.GroupVersionKind)
	if err := p.there.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.name}, now); err != nil {
		return p.there.ExplainError(fmt.Errorf("read %s from cluster %s: %w", p.promotedObjectName(), p.cluster, err))
	}
	if now.GetUID() != p.uid {
		return exit.Next(fmt.Errorf("%s in cluster %s is another object than before: its UID was %s and is %s", p.promotedObjectName(), p.cluster, p.uid, now.GetUID()),
			"Somebody deleted it meanwhile; the hub has created it again.")
	}
	return nil
}
