// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// Two agents of a member that work for the same hub, each as a cluster of its
// own, would have the same record for works of the same name. An agent asks
// before it takes over the record of another: the other denies it if it lives.

const (
	// claimWait is how long the agent of a record may take to deny a claim.
	claimWait = 10 * time.Second
	// claimAgain is how long a denial counts.
	claimAgain = 10 * time.Minute
	// claimedRetry is how soon to look again at a record that was taken over.
	claimedRetry = 100 * time.Millisecond
)

// OwnedByAgent reports whether the record is this agent's, or is to be.
func (r *AppliedRecord) OwnedByAgent() bool { return r.ledger.ownsRecord(r.object) }

// RecordClaims decide between two agents whose a record is.
type RecordClaims struct{ record *AppliedRecord }

// Claims are those on the record, or on the place of one that there is not.
func (r *AppliedRecord) Claims() RecordClaims { return RecordClaims{record: r} }

// IsForeign reports whether the record is another agent's, and not that of the one
// whose place this one takes: its records are taken without asking, as it may
// live and not know yet.
func (c RecordClaims) IsForeign() bool {
	r := c.record
	return r.object != nil && !r.OwnedByAgent() && r.object.Spec.AgentID != "" && r.ledger.AgentID != ""
}

// MakeClaim asks for the record of another agent and takes it if nobody denies it.
// It tells when to call it again, and whether the claim was denied.
func (c RecordClaims) MakeClaim(ctx context.Context) (again time.Duration, denied bool, err error) {
	r := c.record
	m := r.memory
	now := r.ledger.Clock.Now()
	ours := r.ledger.AgentID
	if r.object.Annotations[workv1.AnnotationClaimDenied] == ours && m.denied.IsZero() && !m.claimed.IsZero() {
		m.denied = now
	}
	switch {
	case !m.denied.IsZero() && now.Sub(m.denied) < claimAgain:
		return claimAgain - now.Sub(m.denied), true, nil
	case m.claimed.IsZero() || !m.denied.IsZero():
		m.claimed = now
		m.denied = time.Time{}
		return claimWait, false, c.patchAnnotations(ctx, func(record *workv1.AppliedManifestWork) {
			delete(record.Annotations, workv1.AnnotationClaimDenied)
			metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationClaimedBy, ours)
		})
	case now.Sub(m.claimed) < claimWait:
		return claimWait - now.Sub(m.claimed), false, nil
	}
	m.claimed = time.Time{}
	return claimedRetry, false, c.patchAnnotations(ctx, func(record *workv1.AppliedManifestWork) {
		delete(record.Annotations, workv1.AnnotationClaimedBy)
		record.Spec.AgentID = ours
	})
}

// IsClaimed reports whether another agent wants our record.
func (c RecordClaims) IsClaimed() bool {
	r := c.record
	if r.object == nil || c.IsForeign() {
		return false
	}
	claimer := r.object.Annotations[workv1.AnnotationClaimedBy]
	return claimer != "" && claimer != r.ledger.AgentID
}

// DenyClaim answers the claim of another agent.
func (c RecordClaims) DenyClaim(ctx context.Context) error {
	claimer := c.record.object.Annotations[workv1.AnnotationClaimedBy]
	return c.patchAnnotations(ctx, func(record *workv1.AppliedManifestWork) {
		delete(record.Annotations, workv1.AnnotationClaimedBy)
		metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationClaimDenied, claimer)
	})
}

// patchAnnotations writes a change of the record, provided that nobody changed it meanwhile.
func (c RecordClaims) patchAnnotations(ctx context.Context, change func(*workv1.AppliedManifestWork)) error {
	r := c.record
	after := r.object.DeepCopy()
	change(after)
	patch := client.MergeFromWithOptions(r.object, client.MergeFromWithOptimisticLock{})
	if err := r.ledger.Client.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("changing the agent of appliedmanifestwork %q: %w", r.object.Name, err)
	}
	r.setObject(after)
	return nil
}
