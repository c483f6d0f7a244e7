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

// object is the object of one item while it is brought to the member.
type object struct {
	*Delivery
	item *plan.Item
	// known is what the inventory has of it, nil if nothing.
	known *inventory.Record
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
	adopted *adoption
}

// applier is a strategy that keeps an object as its manifest says.
type applier interface {
	// prepare says as who to apply the object, and changes what is added to the
	// manifest and left out of it.
	prepare(ctx context.Context, o *object, stamp *apply.Stamp) (apply.As, error)
}

// restore applies the object. Corrections of what someone else changed are
// slowed down if they do not last.
func (o *object) restore(ctx context.Context, how applier) {
	it := o.item
	correction := it.Past.Hash == it.Hash && it.Past.Mark.UID != ""
	if correction {
		if wait := it.Damper.Wait(o.Clock.Now()); wait > 0 {
			it.Outcome.Presence = plan.PresenceYes
			it.Outcome.Again = wait
			return
		}
	}
	if !(rights{o}).permitted(ctx, executor.ToApply()) {
		return
	}
	before := ""
	if o.known != nil {
		before = o.known.ResourceVersion
	}
	written, err := (&attempts{of: o}).send(ctx, how)
	if err != nil {
		o.failed(ctx, err)
	}
	tellAdopted(ctx, it, o.adopted, err)
	if err != nil {
		return
	}
	if correction && !o.spared && written.ResourceVersion != before {
		it.Damper = it.Damper.Corrected(o.Clock.Now())
		o.Corrected()
	}
}

// send applies the object and takes in what the server answers.
func (o *object) send(ctx context.Context, how applier) (*metav1.PartialObjectMetadata, error) {
	it := o.item
	stamp := o.stamp()
	o.stuck = nil // of an attempt before
	as, err := (preparation{of: o}).prepare(ctx, how, &stamp)
	if err != nil {
		return nil, err
	}
	adoption, err := (encounter{of: o}).meet(ctx, &as, &stamp)
	if err != nil {
		return nil, err
	}
	if o.body, err = apply.Body(o.raw(), stamp); err != nil {
		return nil, malformed(it, err)
	}
	sent := apply.HashOf(o.body)
	if same, err := o.asSent(ctx, sent, o.body); err != nil || same != nil {
		return same, err
	}
	written, err := o.write(ctx, adoption, stamp, as)
	owns := ownership{of: o, as: as}
	if err == nil {
		written, err = owns.inherit(ctx, written, o.body)
	}
	if r := (replacement{of: o, as: as, without: stamp.Without}); r.helps(err) {
		written, err = r.bring(ctx, o.body, err)
	}
	if err == nil {
		written, err = owns.tidy(ctx, written)
	}
	if err != nil {
		return nil, err
	}
	noteStuck(it, o.stuck)
	o.wrote(written)
	if o.Plan.OfBinding {
		it.Sent = sent
	}
	return written, nil
}

// noteStuck remembers what stays of an object, until another manifest is applied.
func noteStuck(it *plan.Item, stuck []string) {
	if len(stuck) == 0 && (len(it.Stuck) == 0 || it.Past.Hash == it.Hash) {
		return
	}
	it.Stuck = stuck
	it.Outcome.Note = noteOf(it)
}

// write takes over what is to be adopted, and applies the body.
func (o *object) write(ctx context.Context, adoption *adoption, stamp apply.Stamp, as apply.As) (written *metav1.PartialObjectMetadata, err error) {
	if adoption != nil {
		if err := adoption.takeOver(ctx, o.body, stamp); err != nil {
			return nil, err
		}
	}
	if o.seen != nil { // what is applied was made by it
		stamp.ResourceVersion = o.seen.GetResourceVersion()
		if o.body, err = apply.Body(o.raw(), stamp); err != nil {
			return nil, malformed(o.item, err)
		}
	}
	return o.apply(ctx, o.body, as)
}

// apply applies the body.
func (o *object) apply(ctx context.Context, body []byte, as apply.As) (*metav1.PartialObjectMetadata, error) {
	it := o.item
	if err := (rights{o}).rehearse(ctx, body, as); err != nil {
		return nil, err
	}
	// Only the server can tell whether another work owns a field, unless the
	// object is known to be ours alone.
	written, err := o.Member.Apply(ctx, it.Resource.Version, it.Object, body, apply.As{Manager: as.Manager, Force: as.Force && o.sole()})
	if apierrors.IsConflict(err) {
		return o.overrule(ctx, body, as, err)
	}
	return written, err
}

// raw is the manifest, or what is applied in its place.
func (o *object) raw() []byte {
	if o.made != nil {
		return o.made
	}
	return o.Work.Spec.Workload.Manifests[o.item.Ordinal].Raw
}

// stamp is what is added to the manifest of each object.
func (o *object) stamp() apply.Stamp {
	return apply.Stamp{
		Label: workv1.LabelManaged, Namespace: o.item.Object.Namespace, Owners: []metav1.OwnerReference{o.Record.Owner()},
	}
}

// sole tells whether the object is known to be there, and no other work's.
func (o *object) sole() bool {
	return o.known != nil && len(o.known.Owners) > 0 &&
		!slices.ContainsFunc(o.known.Owners, func(owner *inventory.Owner) bool { return owner.UID != o.Record.UID() })
}

// owned tells whether the object is known to be the work's.
func (o *object) owned() bool {
	return o.known != nil && slices.Contains(o.known.OwnerUIDs(), o.Record.UID())
}

// isOurs tells whether the entry of managedFields is of what this work wrote,
// whatever the strategy was.
func (o *object) isOurs(entry *metav1.ManagedFieldsEntry) bool {
	return apply.AppliedFor(entry, o.Record.UID()) || o.isCreation(entry)
}

// isCreation tells whether an entry is of making the object as CreateOnly does.
func (o *object) isCreation(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == o.Record.Manager() && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// leave finds out whether an object exists that is not to be written any more.
func (o *object) leave(ctx context.Context, live apply.Live) {
	switch {
	case live.Exists:
		o.item.Outcome.Presence = plan.PresenceYes
	case live.Known:
		o.item.Outcome.Presence = plan.PresenceNo
	default:
		o.findOut(ctx)
	}
}

// wrote remembers what the server answered to a write.
func (o *object) wrote(written *metav1.PartialObjectMetadata) {
	it := o.item
	it.Past = apply.Past{Hash: it.Hash, Mark: apply.MarkOf(it.Object, written)}
	it.At = o.Clock.Now()
	it.Undeclared = nil
	it.Outcome.Presence = plan.PresenceYes
	o.Inventory.Saw(it.Object, written, o.Record.UID())
}

// failed notes an error, and finds out whether the object exists all the same.
func (o *object) failed(ctx context.Context, err error) {
	if (rights{o}).denied(ctx, err) {
		return
	}
	it := o.item
	it.Past = apply.Past{}
	if u := (*unsaidError)(nil); errors.As(err, &u) {
		it.Outcome.Presence, it.Outcome.Problem = plan.PresenceYes, apply.Problem{Trouble: apply.TroubleCustomized, Message: u.Error()}
		it.Outcome.Again = interpret.Again(u.err)
		return
	}
	it.Sent = apply.Hash{}
	if t := (*takenError)(nil); errors.As(err, &t) {
		it.Outcome.Presence, it.Outcome.Problem = plan.PresenceYes, apply.Problem{Trouble: apply.TroubleTaken, Message: t.Error()}
		return
	}
	it.Outcome.Problem = apply.Explain(err, "patch", it.Object)
	if e := explained(nil); errors.As(err, &e) {
		it.Outcome.Problem.Message = conditions.Shorten(e.explain(it.Outcome.Problem.Message), explainedBytesMax)
	}
	if o.Plan.OfBinding && it.Outcome.Problem.NoNamespace && apierrors.IsNotFound(err) { // which has a work of its own
		it.Outcome.Problem.Message = fmt.Sprintf("Waiting for namespace %q, which does not exist on the cluster: "+
			"the object is applied as soon as it does.", it.Object.Namespace)
	}
	if it.Outcome.Problem.NoKind {
		o.Kinds.Forget(it.Resource.GroupVersion())
		it.Resolved = false
		return
	}
	switch known, listed := o.Inventory.Get(it.Object); {
	case it.Outcome.Problem.Trouble == apply.TroubleConflict, known != nil:
		it.Outcome.Presence = plan.PresenceYes
		return
	case listed && it.Outcome.Problem.Trouble == apply.TroublePassing:
		it.Outcome.Presence = plan.PresenceNo
		return
	}
	o.findOut(ctx)
}

// findOut asks the server whether the object exists.
func (o *object) findOut(ctx context.Context) {
	switch _, err := o.Member.Get(ctx, o.item.Resource.Version, o.item.Object); {
	case apierrors.IsNotFound(err):
		o.item.Outcome.Presence = plan.PresenceNo
	case err == nil:
		o.item.Outcome.Presence = plan.PresenceYes
	}
}

// explainedBytesMax is how long a message is with what an error adds to it.
const explainedBytesMax = apply.MessageBytesMax + 2<<10

// explained is an error that says more than the API server does.
type explained interface {
	error
	// explain adds that to the message of the server.
	explain(message string) string
}
