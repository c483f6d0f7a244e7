// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// deliveryAction is what to do for a manifest.
type deliveryAction uint8

const (
	// actionSkip: the object is as the manifest wants it.
	actionSkip deliveryAction = iota
	// actionBring: do what the strategy is for.
	actionBring
	// actionWait: someone deletes the object; it can be made again when it is gone.
	actionWait
)

// strategy is how the object of a manifest is brought to the member.
type strategy interface {
	// decideAction says whether to do it. It asks nobody.
	decideAction(hash apply.ManifestHash, past apply.LastWrite, live apply.LiveState) deliveryAction
	// deliverObject does it, and notes in the item what came of that.
	deliverObject(ctx context.Context, o *object)
	// statusNote is what is said of an object that is as it should be, "" for that.
	statusNote() string
}

// strategyOf is the one place where it is asked which strategy an item has.
func strategyOf(want *plan.DesiredObject) strategy {
	switch want.Strategy {
	case plan.StrategyCreateOnly:
		return createOnly{}
	case plan.StrategyReadOnly:
		return readOnly{}
	case plan.StrategyServerSideApply:
		return serverSideApply{options: want.Apply, ignored: want.Ignored}
	default:
		return update{retained: want.Retained}
	}
}

// decideToApply is what strategies decide that keep an object as its manifest says.
func decideToApply(hash apply.ManifestHash, past apply.LastWrite, live apply.LiveState) deliveryAction {
	switch {
	case isBeingDeleted(live):
		return actionWait
	case past.Hash != hash || past.Mark.UID == "":
		return actionBring
	case !live.Known: // nobody watches: trust the last write until the resync forgets it
		return actionSkip
	case live.Exists && live.Owned && live.Mark == past.Mark:
		return actionSkip
	default:
		return actionBring
	}
}

func isBeingDeleted(live apply.LiveState) bool { return live.Known && live.Exists && live.Deleting }

// update takes over the fields that the manifest has, but those that are retained.
type update struct{ retained []ignore.Path }

func (update) decideAction(hash apply.ManifestHash, past apply.LastWrite, live apply.LiveState) deliveryAction {
	return decideToApply(hash, past, live)
}
func (update) statusNote() string { return "" }

func (s update) deliverObject(ctx context.Context, o *object) { o.restoreObject(ctx, s) }

func (s update) prepareApply(ctx context.Context, o *object, stamp *apply.Stamp) (apply.FieldWriter, error) {
	as := apply.FieldWriter{Manager: o.Record.FieldManager(), Force: true}
	if o.Plan.Options.Interpreted && o.Interpret.CustomizesRetention(o.want.Manifest.Kind) {
		return as, (&retention{of: o}).prepareRetained(ctx, as.Manager, stamp)
	}
	if len(s.retained) == 0 {
		return as, nil
	}
	seen, err := o.Member.Get(ctx, o.want.Resource.Version, o.want.Object)
	if apierrors.IsNotFound(err) {
		return as, nil
	}
	if err != nil {
		return as, err
	}
	stamp.Without = s.retained
	_, err = o.disownFields(ctx, seen, as.Manager, nil, s.retained)
	return as, err
}

// createOnly never changes an object that is there.
type createOnly struct{}

func (createOnly) decideAction(_ apply.ManifestHash, past apply.LastWrite, live apply.LiveState) deliveryAction {
	switch {
	case isBeingDeleted(live):
		return actionWait
	case live.Known && live.Exists && live.Owned || !live.Known && past.Mark.UID != "":
		return actionSkip
	default:
		return actionBring
	}
}

func (createOnly) statusNote() string {
	return "The object exists; updateStrategy CreateOnly never updates it."
}

// deliverObject makes an object, and only becomes an owner of one that is there.
func (s createOnly) deliverObject(ctx context.Context, o *object) {
	if !(executorRights{o}).isPermitted(ctx, executor.ToCreate()) {
		return
	}
	written, err := s.makeOrOwn(ctx, o)
	if err != nil {
		o.setFailureOutcome(ctx, err)
		return
	}
	o.storeWritten(written)
}

// makeOrOwn makes the object, or makes the work an owner of the one that is there.
func (createOnly) makeOrOwn(ctx context.Context, o *object) (*metav1.PartialObjectMetadata, error) {
	want := o.want
	stamp := o.objectStamp()
	as := apply.FieldWriter{Manager: o.Record.FieldManager(), Force: true}
	missing := o.Session == nil // what an executor needs depends on whether the object is there
	if !missing {
		_, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
		if missing = apierrors.IsNotFound(err); err != nil && !missing {
			return nil, err
		}
	}
	if missing {
		body, err := apply.RenderBody(ctx, o.rawManifest(), stamp)
		if err == nil {
			err = executorRights{o}.rehearseWrite(ctx, body, as)
		}
		if err != nil {
			return nil, err
		}
		if made, err := o.Member.Create(ctx, want.Resource.Version, want.Object, body, as.Manager); !apierrors.IsAlreadyExists(err) {
			return made, err
		}
	}
	seen, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
	if err != nil {
		return nil, err
	}
	stamp.MetadataOnly = true
	stamp.UID = seen.UID
	body, err := apply.RenderBody(ctx, o.rawManifest(), stamp)
	if err == nil {
		err = executorRights{o}.rehearseWrite(ctx, body, as)
	}
	if err != nil {
		return nil, err
	}
	return o.Member.Apply(ctx, want.Resource.Version, want.Object, body, as)
}

// readOnly writes nothing.
type readOnly struct{}

func (readOnly) decideAction(apply.ManifestHash, apply.LastWrite, apply.LiveState) deliveryAction {
	return actionBring
}
func (readOnly) statusNote() string { return "" }

// deliverObject finds out whether an object that is not to be written exists.
func (readOnly) deliverObject(ctx context.Context, o *object) {
	if !(executorRights{o}).isPermitted(ctx, executor.ToRead()) {
		return
	}
	want := o.want
	o.outcome.Note = "The object is only read (updateStrategy ReadOnly)."
	if want.Observer != nil {
		return // it is read whole later
	}
	o.outcome.Again = o.ReadInterval
	switch _, err := o.Member.Get(ctx, want.Resource.Version, want.Object); {
	case apierrors.IsNotFound(err):
		o.outcome.Presence = plan.PresenceNo
	case err != nil:
		o.outcome.Problem = apply.ExplainError(err, "get", want.Object)
	default:
		o.outcome.Presence = plan.PresenceYes
	}
}
