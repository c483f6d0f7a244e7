// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// errUnsettled ends a pass that has written works: the cache is about to show them.
var errUnsettled = errors.New("works were written that the cache does not show yet")

// bindingPass is one look at a binding whose object is there. Each field after works is written by
// one phase, and read by those after it.
type bindingPass struct {
	by      *BindingController
	binding binding // as scheduleClusters left it
	key     templates.Key
	object  *unstructured.Unstructured
	works   presentWorks
	// owner is whose allowance the works count for, and the writes of the binding.
	owner allowance.WorkOwner
	// sent is what came of the works.
	sent deliveryResult
	// items are what the clusters report.
	items []workv1alpha2.AggregatedStatusItem
	// reflected is what came of writing the status of the object.
	reflected reflectResult
	// leaving is what there is to say of an object that is about to leave clusters, and
	// untilLeaving when there will be something else.
	leaving      string
	untilLeaving time.Duration
	// repeats is that something was said about what is asked for. How long what clusters report has to wait then
	// is reportWait, and untilReport when the binding may say what it does not.
	repeats                 bool
	reportWait, untilReport time.Duration
}

// bindingPhase is a step of a pass over a binding.
type bindingPhase func(*bindingPass, context.Context) error

// runPhases takes the pass from the binding to its works in clusters, and back to its status. It returns
// when to come back if nothing happens.
func (p *bindingPass) runPhases(ctx context.Context) (_ ctrl.Result, err error) {
	if p.owner, err = lookup.NewPayers(p.by.Client).FindPayer(ctx, p.binding, p.object); err != nil {
		return ctrl.Result{}, err //nolint:wrapcheck // it names the binding
	}
	ctx = store.WithClusterWide(ctx, p.owner.ClusterWide)
	for _, phase := range []bindingPhase{
		(*bindingPass).scheduleClusters,
		(*bindingPass).deliverWorks, // renders, stages and dispatches them, those of some clusters at a time
		(*bindingPass).aggregateStatus,
		(*bindingPass).paceReport,
		(*bindingPass).reflectToObject,
		(*bindingPass).reportStatus,
	} {
		switch err := phase(p, ctx); {
		case errors.Is(err, errUnsettled):
			return ctrl.Result{RequeueAfter: settle}, nil
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: p.nextLook()}, p.reflected.failed
}

// scheduleClusters chooses the clusters of the binding if that is needed, and writes it if it is not
// as it is to be.
func (p *bindingPass) scheduleClusters(ctx context.Context) (err error) {
	p.binding, _, err = p.by.Store.ScheduleAndUpdate(ctx, p.binding, withFinalizer(p.binding), "")
	return err
}

// deliverWorks makes the works in the clusters what they are to be.
func (p *bindingPass) deliverWorks(ctx context.Context) (err error) {
	if p.sent, err = p.by.deliverObject(ctx, p.binding, p.object, p.owner, p.works); err != nil {
		return err
	}
	if !p.sent.settled {
		return errUnsettled
	}
	return nil
}

// aggregateStatus sums up what the clusters report, and what keeps them from it.
func (p *bindingPass) aggregateStatus(context.Context) error {
	p.items = sum.AggregateItems(sum.SummaryInput{
		Spec: p.binding.BindingSpec(), Works: p.works.own, Problems: p.sent.problems, Fleet: p.by.Fleet.Snapshot(),
	})
	p.leaving, p.untilLeaving = sum.LeavingRemark(p.object, p.by.Clock.Now())
	return nil
}

// paceReport asks how long what the clusters report has to wait, in the object and in the binding. About what was asked
// for last, something is said at once, and something else as often as both are written.
func (p *bindingPass) paceReport(ctx context.Context) error {
	b := p.binding
	was := meta.FindStatusCondition(b.BindingStatus().Conditions, workv1alpha2.BindingConditionFullyApplied)
	if p.repeats = was != nil && was.ObservedGeneration == b.GetGeneration(); p.repeats {
		p.reportWait = p.by.Store.Meter.WaitBeforeReport(ctx, client.ObjectKeyFromObject(b))
	}
	return nil
}

// withCause has what is written count for the change that it is the first report about, or else as a report.
func (p *bindingPass) withCause(ctx context.Context) context.Context {
	if p.repeats {
		return store.WithReports(ctx)
	}
	return ctx
}

// reflectToObject writes what became of the object into its own status. What fails there keeps
// nobody from reading it in the binding.
func (p *bindingPass) reflectToObject(ctx context.Context) error {
	p.reflected = p.reflectStatus(p.withCause(ctx))
	return nil
}

// reportStatus writes the status of the binding.
func (p *bindingPass) reportStatus(ctx context.Context) error {
	if err := p.writeBindingStatus(p.withCause(ctx), p.reflected.refusal, p.leaving); err != nil {
		return errors.Join(err, p.reflected.failed)
	}
	return nil
}

// nextLook returns how soon there may be more to do or to say; 0 if only something that happens
// makes it so.
func (p *bindingPass) nextLook() time.Duration {
	decider := p.by.Store.Decider
	decided := cmp.Or(decider.RefusalBackoff(p.binding), decider.ConfirmIn(p.binding, p.binding.BindingStatus()))
	return shorterWait(shorterWait(shorterWait(shorterWait(p.sent.again, p.reflected.again), p.untilLeaving), decided), p.untilReport)
}

// withFinalizer returns a copy of a binding that has the finalizer which keeps it until its works
// are gone: whoever created or changed it may have left that out.
func withFinalizer(b binding) binding {
	after := deepcopy.CopyObject(b)
	controllerutil.AddFinalizer(after, deliver.BindingFinalizer(b))
	return after
}

// shorterWait returns the shorter of two waits; 0 is none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// writeBindingStatus writes the status of a binding: what clusters say, and what there is to say about
// the object besides.
func (p *bindingPass) writeBindingStatus(ctx context.Context, remarks ...string) error {
	b, held := p.binding, p.sent.limited
	after := deepcopy.CopyObject(b)
	status := after.BindingStatus()
	// The cache has digests of what clusters report.
	if !equality.Semantic.DeepEqual(sum.DigestItems(status.AggregatedStatus), sum.DigestItems(p.items)) {
		status.AggregatedStatus = p.items
	}
	applied := limitedCondition(sum.FullyAppliedCondition(b.BindingSpec(), p.items), held)
	for _, remark := range remarks {
		applied.Message = strings.TrimSpace(applied.Message + " " + remark)
	}
	conditions.SetCondition(&status.Conditions, b.GetGeneration(), applied)
	if equality.Semantic.DeepEqual(b.BindingStatus(), status) {
		return nil
	}
	was := meta.FindStatusCondition(b.BindingStatus().Conditions, applied.Type)
	if p.untilReport = p.reportWait; p.untilReport > 0 {
		return nil
	}
	if err := conditions.PatchStatus(ctx, p.by.Client, b, after); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	if held.NeedsAction() && (was == nil || was.Reason != applied.Reason) {
		p.by.Events.Eventf(b, nil, corev1.EventTypeWarning, applied.Reason, action, "%s", applied.Message)
	}
	return nil
}

// limitedCondition has a condition say what is held back, if anything is.
func limitedCondition(condition metav1.Condition, held allowance.HeldWorks) metav1.Condition {
	if held.AnyHeld() {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(held.Reason), held.ConditionMessage()
	}
	return condition
}
