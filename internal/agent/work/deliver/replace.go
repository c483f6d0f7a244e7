// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/apply/replace"
)

const (
	// draftsMax is how many drafts of what replaces an object are tried.
	draftsMax = 6
	// triesMax is how many dry runs are made in one pass to find out what of a field is refused.
	triesMax = 12
	// overruledMax is how many fields of other works, and how many of these works, a message names.
	overruledMax = 20
)

// replacement brings an object to the member as a whole, where server-side apply was
// refused for something that the manifest does not say, or says twice: a field that the
// server set by default and that contradicts the manifest now, or that somebody else did.
type replacement struct {
	of *object
	as apply.FieldWriter
	// without are fields that the manifest has and that are left to the cluster.
	without []ignore.Path
}

// isApplicable reports whether an object can be replaced that could not be applied. It takes over the
// fields that the manifest has, so it is only for who may do that. Who leaves alone what is
// there may still make what is not.
func (r replacement) isApplicable(refusal error) bool {
	if !r.as.Force {
		return r.of.want.Yields && apply.IsInexpressible(refusal)
	}
	return apierrors.IsInvalid(refusal) || apply.IsInexpressible(refusal)
}

// replaceObject replaces the object, or makes it, by the body that could not be applied. If the server
// takes no draft, the error is what it has against the last one as far as that is the
// manifest's fault, and else the refusal. So it is if there is nothing to replace, or it may
// not be read.
func (r replacement) replaceObject(ctx context.Context, body []byte, refusal error) (*metav1.PartialObjectMetadata, error) {
	want := r.of.want
	if err := r.of.keepContent(ctx); err != nil {
		return nil, err
	}
	manifest, err := apply.NormalizedContent(ctx, body)
	if err != nil {
		return nil, err
	}
	live, err := r.of.Member.ReadObject(ctx, want.Resource.Version, want.Object)
	switch {
	case apierrors.IsNotFound(err) && apply.IsInexpressible(refusal):
		return r.createObject(ctx, body, manifest, refusal)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, refusal
	case err != nil:
		return nil, err
	case live.GetDeletionTimestamp() != nil, !r.as.Force:
		return nil, refusal
	}
	written, err := r.replaceWithDrafts(ctx, live, manifest)
	switch {
	case errors.Is(err, replace.ErrItems):
		return nil, refusal
	case apierrors.IsInvalid(err) && apierrors.IsInvalid(refusal) && !replace.HasImproved(causesOf(refusal), causesOf(err)):
		return nil, refusalOf(refusal, err)
	case err != nil:
		return nil, err
	}
	return r.settleOwnership(ctx, written, manifest)
}

// replaceWithDrafts tries one draft after the other until the server accepts one.
func (r replacement) replaceWithDrafts(ctx context.Context, live *unstructured.Unstructured, manifest map[string]any) (*metav1.PartialObjectMetadata, error) {
	want := r.of.want
	retained := append(slices.Clip(r.without), concededPaths(manifest, want.Scales)...)
	draft, err := replace.NewDraft(live.Object, manifest,
		replace.FieldOwners{Managers: live.GetManagedFields(), Ours: r.isOurs, Declared: r.of.Declared.DeclaredFor(ctx, want.Manifest.Kind)}, retained)
	if err != nil {
		return nil, err
	}
	parts := &draftNarrowing{of: r, draft: draft, tries: triesMax}
	for tried := 1; ; tried++ {
		if err := r.spareOtherWorks(ctx, live, draft); err != nil {
			return nil, err
		}
		written, err := r.sendDraft(ctx, draft)
		if err == nil {
			r.of.stuck = draft.StuckFields()
		}
		if !apierrors.IsInvalid(err) || tried == draftsMax {
			return written, err
		}
		if draft.HandleRefusal(causesOf(err)) {
			continue
		}
		again, problem := parts.nextDraft(ctx, causesOf(err))
		switch {
		case problem != nil:
			return nil, problem
		case again:
		case len(parts.fixed) > 0:
			return nil, &fixedError{fields: parts.fixed, err: err}
		default:
			return nil, err
		}
	}
}

// sendDraft replaces the object with a draft, once an executor may.
func (r replacement) sendDraft(ctx context.Context, draft *replace.Draft) (*metav1.PartialObjectMetadata, error) {
	want := r.of.want
	patch, err := draft.RenderPatch()
	if err != nil {
		return nil, err
	}
	if r.of.Session != nil {
		if err := r.of.Session.RehearseReplacement(ctx, want.Resource.Version, want.Object, patch, r.as); err != nil {
			return nil, err
		}
	}
	return r.of.Member.Replace(ctx, want.Resource.Version, want.Object, patch, r.as)
}

// refusalOf returns why server-side apply was refused, with what was found out about it.
func refusalOf(refusal, found error) error {
	if fixed := (*fixedError)(nil); errors.As(found, &fixed) {
		return &fixedError{fields: fixed.fields, err: refusal}
	}
	return refusal
}

// isOurs reports whether the entry of managedFields is of what this work wrote, with whatever
// manager.
func (r replacement) isOurs(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == r.as.Manager && entry.Subresource == "" || r.of.isOurs(entry)
}

// spareOtherWorks returns an error if the draft changes what another work has of the object.
func (r replacement) spareOtherWorks(ctx context.Context, live *unstructured.Unstructured, draft *replace.Draft) error {
	records, causes, err := overruledFields(ctx, draft, live.GetManagedFields(), (encounter{of: r.of}).otherWorks(ctx, live.GetOwnerReferences()), r.isOurs)
	if err != nil {
		return err
	}
	if len(causes) == 0 {
		return nil
	}
	works := make(map[string]string, len(records))
	for manager, record := range records {
		works[manager] = (encounter{of: r.of}).workOf(record)
	}
	return &disagreement{works: works, conflict: apierrors.NewApplyConflict(causes, "replacing the object changes fields of other works")}
}

// createObject makes an object that is not there. As an executor that cannot be rehearsed.
func (r replacement) createObject(ctx context.Context, body []byte, manifest map[string]any, refusal error) (*metav1.PartialObjectMetadata, error) {
	want := r.of.want
	if r.of.Session != nil && executor.IsDelicate(want.Object) {
		return nil, refusal
	}
	made, err := r.of.Member.Create(ctx, want.Resource.Version, want.Object, body, r.as.Manager)
	if err != nil {
		return nil, err
	}
	return r.settleOwnership(ctx, made, manifest)
}

// settleOwnership makes what we wrote ours in the way of server-side apply: what we own is let go of,
// or taken away, when we apply the object again.
func (r replacement) settleOwnership(ctx context.Context, written *metav1.PartialObjectMetadata, manifest map[string]any) (*metav1.PartialObjectMetadata, error) {
	settled, changed, err := replace.SettleManagers(written.ManagedFields, r.as.Manager, manifest)
	if err != nil || !changed {
		return written, err
	}
	body, err := apply.SetManagers(written, settled)
	if err != nil {
		return nil, err
	}
	return r.of.Member.MergePatch(ctx, r.of.want.Resource.Version, r.of.want.Object, body, r.as)
}

// causesOf returns what the server says is wrong with an object, field by field.
func causesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// fixedError says which fields of a manifest cannot change, where the server does not.
type fixedError struct {
	fields []string
	err    error
}

func (e *fixedError) Error() string { return e.err.Error() }
func (e *fixedError) Unwrap() error { return e.err }

// draftNarrowing finds out by dry runs what the server has against a draft, where it refuses a field as a
// whole, such as the spec of a StatefulSet. To leave all of that as it is would keep what the manifest
// has lost, and to drop all of it would take away what others own.
type draftNarrowing struct {
	of    replacement
	draft *replace.Draft
	// tries is how many dry runs are left.
	tries int
	// fixed are the fields that cannot become what the manifest says.
	fixed []string
}

// nextDraft makes another draft: with the parts that the server does not let go, or without one of
// somebody else that contradicts the manifest. It returns false if there is none: what cannot change
// is in the manifest, or it was not found.
func (n *draftNarrowing) nextDraft(ctx context.Context, causes []metav1.StatusCause) (again bool, err error) {
	fields := n.draft.WholeFields(causes)
	if again, err = n.keepParts(ctx, fields); again || err != nil {
		return again, err
	}
	return n.dropPart(ctx, fields)
}

// keepParts has parts stay whose change alone is refused. Those that are in the manifest are fixed.
func (n *draftNarrowing) keepParts(ctx context.Context, fields []string) (again bool, err error) {
	n.fixed = nil
	for _, field := range fields {
		for _, part := range n.draft.ChangedParts(field) {
			if n.isExhausted(ctx) {
				return again, nil
			}
			patch, err := n.draft.RenderPartPatch(part)
			if err != nil {
				return false, err
			}
			switch {
			case n.tryPatch(ctx, patch) != answerRefused:
			case n.draft.KeepPart(part):
				again = true
			default:
				n.fixed = append(n.fixed, part.String())
			}
		}
	}
	return again, nil
}

// dropPart has a part of somebody else go without which the server takes the draft.
func (n *draftNarrowing) dropPart(ctx context.Context, fields []string) (again bool, err error) {
	for _, field := range fields {
		for _, part := range n.draft.ForeignParts(field) {
			if n.isExhausted(ctx) {
				return false, nil
			}
			patch, err := n.draft.RenderPatchWithout(part)
			if err != nil {
				return false, err
			}
			if n.tryPatch(ctx, patch) == answerAccepted && n.draft.DropPart(part) {
				n.fixed = nil
				return true, nil
			}
		}
	}
	return false, nil
}

// isExhausted reports whether no dry run is left. A patch of a whole object is not made for each of its parts, of which there may
// be a hundred thousand, to try none.
func (n *draftNarrowing) isExhausted(ctx context.Context) bool {
	return n.tries == 0 || ctx.Err() != nil
}

// dryRunAnswer is what a dry run says.
type dryRunAnswer uint8

const (
	// answerNone: something else than the content is refused.
	answerNone dryRunAnswer = iota
	answerAccepted
	answerRefused
)

// tryPatch makes a dry run, of which some are left. A server that cannot make any, such as for a webhook that does not support them,
// is not asked again.
func (n *draftNarrowing) tryPatch(ctx context.Context, patch []byte) dryRunAnswer {
	n.tries--
	want := n.of.of.want
	err := n.of.of.Member.TryReplace(ctx, want.Resource.Version, want.Object, patch, n.of.as)
	switch {
	case err == nil:
		return answerAccepted
	case apierrors.IsInvalid(err):
		return answerRefused
	default:
		n.tries = 0
		return answerNone
	}
}
