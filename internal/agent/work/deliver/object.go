// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// object is the object of one item while it is brought to the member. What is wanted of it is
// read; what was done for it, and what comes of that now, is written.
type object struct {
	*Delivery
	want    *plan.DesiredObject
	history *plan.DeliveryHistory
	outcome *plan.ItemOutcome
	// known is what the inventory has of it, nil if nothing.
	known *inventory.ObjectRecord
	// made is applied in the place of the manifest, nil if that is. It is so by the
	// object in the cluster, which is seen.
	made []byte
	seen *unstructured.Unstructured
	// without are the fields that its strategy leaves out of the manifest, and undeclared
	// those of the rest that the member has turned out not to know.
	without, undeclared []ignore.Path
	// body is what was sent last.
	body []byte
	// stuck are fields that stay though the manifest has lost them.
	stuck []string
	// spared says that the object was as it should be, and was not written.
	spared bool
	// adopted is what the work takes over of an object that was there before, nil for nothing.
	adopted *fieldAdoption
	room    contentRoom
}

// applier is a strategy that keeps an object as its manifest says.
type applier interface {
	// prepareApply says as who to apply the object, and changes what is added to the
	// manifest and left out of it.
	prepareApply(ctx context.Context, o *object, stamp *apply.Stamp) (apply.FieldWriter, error)
}

// restoreObject applies the object. Corrections of what someone else changed are
// slowed down if they do not last.
func (o *object) restoreObject(ctx context.Context, how applier) {
	want := o.want
	correction := o.history.Past.Hash == want.Hash && o.history.Past.Mark.UID != ""
	if correction {
		if wait := o.history.Damper.CorrectionDelay(o.Clock.Now()); wait > 0 {
			o.outcome.Presence = plan.PresenceYes
			o.outcome.Again = wait
			return
		}
	}
	if !(executorRights{o}).isPermitted(ctx, executor.ToApply()) {
		return
	}
	before := ""
	if o.known != nil {
		before = o.known.ResourceVersion
	}
	written, err := (&applyAttempts{of: o}).sendUntilAccepted(ctx, how)
	if err != nil {
		o.setFailureOutcome(ctx, err)
	}
	o.reportAdopted(ctx, err)
	if err != nil {
		return
	}
	if correction && !o.spared && written.ResourceVersion != before {
		o.history.Damper = o.history.Damper.AfterCorrection(o.Clock.Now())
		o.Corrected()
	}
}

// sendObject applies the object and takes in what the server answers.
func (o *object) sendObject(ctx context.Context, how applier) (*metav1.PartialObjectMetadata, error) {
	stamp := o.objectStamp()
	o.stuck = nil // of an attempt before
	as, err := (preparation{of: o}).prepareObject(ctx, how, &stamp)
	if err != nil {
		return nil, err
	}
	adoption, err := (encounter{of: o}).inspectObject(ctx, &as, &stamp)
	if err != nil {
		return nil, err
	}
	if o.body, err = apply.RenderBody(ctx, o.rawManifest(), stamp); err != nil {
		return nil, malformedManifest(o.want, err)
	}
	sent := apply.HashManifest(o.body)
	if same, err := o.asSent(ctx, sent, o.body); err != nil || same != nil {
		return same, err
	}
	written, err := o.writeBody(ctx, adoption, stamp, as)
	owns := ownership{of: o, as: as}
	if err == nil {
		written, err = owns.inheritFields(ctx, written, o.body)
	}
	if r := (replacement{of: o, as: as, without: stamp.Without}); r.isApplicable(err) {
		written, err = r.replaceObject(ctx, o.body, err)
	}
	if err == nil {
		written, err = owns.releaseOldManagers(ctx, written)
	}
	if err != nil {
		return nil, err
	}
	o.noteStuck()
	o.storeWritten(written)
	if o.Plan.Options.Interpreted {
		o.history.Sent = sent
	}
	return written, nil
}

// noteStuck remembers what stays of an object, until another manifest is applied.
func (o *object) noteStuck() {
	if len(o.stuck) == 0 && (len(o.history.Stuck) == 0 || o.history.Past.Hash == o.want.Hash) {
		return
	}
	o.history.Stuck = o.stuck
	o.outcome.Note = noteOf(o.history)
}

// writeBody takes over what is to be adopted, and applies the body.
func (o *object) writeBody(ctx context.Context, adoption *fieldAdoption, stamp apply.Stamp, as apply.FieldWriter) (written *metav1.PartialObjectMetadata, err error) {
	if adoption != nil {
		if err := adoption.takeOver(ctx, o.body, stamp); err != nil {
			return nil, err
		}
	}
	if o.seen != nil { // what is applied was made by it
		stamp.ResourceVersion = o.seen.GetResourceVersion()
		if o.body, err = apply.RenderBody(ctx, o.rawManifest(), stamp); err != nil {
			return nil, malformedManifest(o.want, err)
		}
	}
	return o.applyBody(ctx, o.body, as)
}

// applyBody applies the body.
func (o *object) applyBody(ctx context.Context, body []byte, as apply.FieldWriter) (*metav1.PartialObjectMetadata, error) {
	want := o.want
	if err := (executorRights{o}).rehearseWrite(ctx, body, as); err != nil {
		return nil, err
	}
	// Only the server can tell whether another work owns a field, unless the
	// object is known to be ours alone.
	written, err := o.Member.Apply(ctx, want.Resource.Version, want.Object, body, apply.FieldWriter{Manager: as.Manager, Force: as.Force && o.isSoleOwner()})
	if apierrors.IsConflict(err) {
		return o.applyOverConflict(ctx, body, as, err)
	}
	return written, err
}

// rawManifest is the manifest, or what is applied in its place.
func (o *object) rawManifest() []byte {
	if o.made != nil {
		return o.made
	}
	return o.Work.Spec.Workload.Manifests[o.want.Ordinal].Raw
}

// objectStamp is what is added to the manifest of each object.
func (o *object) objectStamp() apply.Stamp {
	return apply.Stamp{
		Label: workv1.LabelManaged, Namespace: o.want.Object.Namespace, Owners: []metav1.OwnerReference{o.Record.OwnerReference()},
	}
}

// isSoleOwner reports whether the object is known to be there, and no other work's.
func (o *object) isSoleOwner() bool {
	return o.known != nil && len(o.known.Owners) > 0 &&
		!slices.ContainsFunc(o.known.Owners, func(owner *inventory.Owner) bool { return owner.UID != o.Record.UID() })
}

// isOwnedByRecord reports whether the object is known to be the work's.
func (o *object) isOwnedByRecord() bool {
	return o.known != nil && slices.Contains(o.known.OwnerUIDs(), o.Record.UID())
}

// isOurs reports whether the entry of managedFields is of what this work wrote,
// whatever the strategy was.
func (o *object) isOurs(entry *metav1.ManagedFieldsEntry) bool {
	return apply.AppliedFor(entry, o.Record.UID()) || o.isCreation(entry)
}

// isCreation reports whether an entry is of making the object as CreateOnly does.
func (o *object) isCreation(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == o.Record.FieldManager() && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// resolvePresence finds out whether an object exists that is not to be written any more.
func (o *object) resolvePresence(ctx context.Context, live apply.LiveState) {
	switch {
	case live.Exists:
		o.outcome.Presence = plan.PresenceYes
	case live.Known:
		o.outcome.Presence = plan.PresenceNo
	default:
		o.probeExistence(ctx)
	}
}

// storeWritten remembers what the server answered to a write.
func (o *object) storeWritten(written *metav1.PartialObjectMetadata) {
	want := o.want
	o.history.Past = apply.LastWrite{Hash: want.Hash, Mark: apply.FingerprintOf(want.Object, written)}
	o.history.At = o.Clock.Now()
	o.history.Undeclared = nil
	o.outcome.Presence = plan.PresenceYes
	o.Inventory.ObserveWrite(want.Object, written, o.Record.UID())
}

// setFailureOutcome notes an error, and finds out whether the object exists all the same.
func (o *object) setFailureOutcome(ctx context.Context, err error) {
	if (executorRights{o}).reportDenial(ctx, err) {
		return
	}
	want := o.want
	o.history.Past = apply.LastWrite{}
	if u := (*unsaidError)(nil); errors.As(err, &u) {
		o.outcome.Presence, o.outcome.Problem = plan.PresenceYes, apply.ObjectProblem{Trouble: apply.TroubleCustomized, Message: u.Error()}
		o.outcome.Again = interpret.RetryDelayOf(u.err)
		return
	}
	o.history.Sent = apply.ManifestHash{}
	if t := (*takenError)(nil); errors.As(err, &t) {
		o.outcome.Presence, o.outcome.Problem = plan.PresenceYes, apply.ObjectProblem{Trouble: apply.TroubleTaken, Message: t.Error()}
		return
	}
	o.outcome.Problem = apply.ExplainError(err, "patch", want.Object)
	if e := explained(nil); errors.As(err, &e) {
		o.outcome.Problem.Message = conditions.ShortenText(e.explainMessage(o.outcome.Problem.Message), explainedBytesMax)
	}
	if o.Plan.Options.NamespacesFollow && o.outcome.Problem.NoNamespace && apierrors.IsNotFound(err) {
		o.outcome.Problem.Message = fmt.Sprintf("Waiting for namespace %q, which does not exist on the cluster: "+
			"the object is applied as soon as it does.", want.Object.Namespace)
	}
	if o.outcome.Problem.NoKind {
		o.Kinds.ForgetGroupVersion(want.Resource.GroupVersion())
		o.outcome.KindLost = true
		return
	}
	switch known, listed := o.Inventory.Get(want.Object); {
	case o.outcome.Problem.Trouble == apply.TroubleConflict, known != nil:
		o.outcome.Presence = plan.PresenceYes
		return
	case listed && o.outcome.Problem.Trouble == apply.TroublePassing:
		o.outcome.Presence = plan.PresenceNo
		return
	}
	o.probeExistence(ctx)
}

// probeExistence asks the server whether the object exists.
func (o *object) probeExistence(ctx context.Context) {
	switch _, err := o.Member.Get(ctx, o.want.Resource.Version, o.want.Object); {
	case apierrors.IsNotFound(err):
		o.outcome.Presence = plan.PresenceNo
	case err == nil:
		o.outcome.Presence = plan.PresenceYes
	}
}

// explainedBytesMax is how long a message is with what an error adds to it.
const explainedBytesMax = apply.MessageBytesMax + 2<<10

// explained is an error that says more than the API server does.
type explained interface {
	error
	// explainMessage adds that to the message of the server.
	explainMessage(message string) string
}
