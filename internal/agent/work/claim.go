// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/conditions"
)

// Two agents of a member that work for the same hub, each as a cluster of its
// own, would have the same record for works of the same name. An agent asks
// before it takes over the record of another: the other denies it if it lives.

const (
	// claimWait is how long the agent of a record may take to deny a claim.
	claimWait = 10 * time.Second
	// claimAgain is how long a denial counts.
	claimAgain = 10 * time.Minute
)

// foreign tells whether the record is another agent's, and not that of the one
// whose place this one takes: its records are taken without asking, as it may
// live and not know yet.
func (p *pass) foreign() bool {
	return p.record != nil && !p.owns(p.record) && p.record.Spec.AgentID != "" && p.connection.AgentID != ""
}

// owns tells whether a record is this agent's, or is to be.
func (s *site) owns(record *workv1.AppliedManifestWork) bool {
	return record.Spec.AgentID == s.connection.AgentID ||
		s.connection.Predecessor != "" && record.Spec.AgentID == s.connection.Predecessor
}

// claim asks for the record of another agent and takes it if nobody denies it.
func (p *pass) claim(ctx context.Context) error {
	now := p.options.Clock.Now()
	ours := p.connection.AgentID
	if p.record.Annotations[workv1.AnnotationClaimDenied] == ours && p.state.denied.IsZero() && !p.state.claimed.IsZero() {
		p.state.denied = now
	}
	switch {
	case !p.state.denied.IsZero() && now.Sub(p.state.denied) < claimAgain:
		p.comeBack(claimAgain - now.Sub(p.state.denied))
		return p.refused(ctx)
	case p.state.claimed.IsZero() || !p.state.denied.IsZero():
		p.state.claimed, p.state.denied = now, time.Time{}
		p.comeBack(claimWait)
		return p.annotate(ctx, func(record *workv1.AppliedManifestWork) {
			delete(record.Annotations, workv1.AnnotationClaimDenied)
			metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationClaimedBy, ours)
		})
	case now.Sub(p.state.claimed) < claimWait:
		p.comeBack(claimWait - now.Sub(p.state.claimed))
		return nil
	}
	p.state.claimed = time.Time{}
	p.comeBack(conflictRetry)
	return p.annotate(ctx, func(record *workv1.AppliedManifestWork) {
		delete(record.Annotations, workv1.AnnotationClaimedBy)
		record.Spec.AgentID = ours
	})
}

// deny answers the claim of another agent.
func (p *pass) deny(ctx context.Context) error {
	claimer := p.record.Annotations[workv1.AnnotationClaimedBy]
	return p.annotate(ctx, func(record *workv1.AppliedManifestWork) {
		delete(record.Annotations, workv1.AnnotationClaimedBy)
		metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationClaimDenied, claimer)
	})
}

// challenged tells whether another agent wants our record.
func (p *pass) challenged() bool {
	if p.record == nil || p.foreign() {
		return false
	}
	claimer := p.record.Annotations[workv1.AnnotationClaimedBy]
	return claimer != "" && claimer != p.connection.AgentID
}

// annotate writes a change of the record, provided that nobody changed it meanwhile.
func (p *pass) annotate(ctx context.Context, change func(*workv1.AppliedManifestWork)) error {
	after := p.record.DeepCopy()
	change(after)
	patch := client.MergeFromWithOptions(p.record, client.MergeFromWithOptimisticLock{})
	if err := p.connection.Spoke.GetClient().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("settling whose appliedmanifestwork %q is: %w", p.record.Name, err)
	}
	p.setRecord(after)
	return nil
}

// refused says that the work is not applied. Nothing of it is on the member,
// so it can be deleted.
func (p *pass) refused(ctx context.Context) error {
	if p.stored.DeletionTimestamp != nil {
		return p.finish(ctx)
	}
	conditions.Set(&p.work.Status.Conditions, p.work.Generation, metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkFailed,
		Message: fmt.Sprintf("AppliedManifestWork %q on the cluster belongs to the agent %q, which is alive: the same cluster is "+
			"registered with this hub twice, and both have a ManifestWork %q. Rename or delete one of them, or remove one of the Klusterlets.",
			p.record.Name, p.record.Spec.AgentID, p.name),
	})
	return p.writeStatus(ctx)
}
