// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/conditions"
)

const (
	// quietRetries is how many reads in a row of an object may fail for a reason
	// that may be over soon before the work says so.
	quietRetries = 4
	// namedObjectsMax is how many objects a message names.
	namedObjectsMax = 10
)

// report writes what became of the manifests, with one request.
func (p *pass) report(ctx context.Context) error {
	if p.lull() > 0 {
		return nil
	}
	for {
		p.compose()
		err := p.writeStatus(ctx)
		if err == nil || !p.cramp(err) {
			return err
		}
		p.work.Status = *p.stored.Status.DeepCopy()
	}
}

// compose makes the status, within its budget.
func (p *pass) compose() {
	status := &p.work.Status
	status.ResourceStatus.Manifests = p.manifestConditions(status.ResourceStatus.Manifests)
	generation := p.work.Generation
	conditions.Set(&status.Conditions, generation, p.appliedCondition())
	conditions.Set(&status.Conditions, generation, p.availableCondition())
	p.setFeedbackCondition()
	p.setRuleConditions()
	p.fit()
}

// writeStatus writes the status of the work if it changed. The patch does
// without the manifests, which can be large.
func (p *pass) writeStatus(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.stored.Status, p.work.Status) {
		return nil
	}
	slim := func(work *workv1.ManifestWork) *workv1.ManifestWork {
		return &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion,
			},
			Status: work.Status,
		}
	}
	after := slim(p.work)
	patch, err := client.MergeFromWithOptions(slim(p.stored), client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return fmt.Errorf("encoding the status of manifestwork %q: %w", p.name, err)
	}
	// The answer is metadata only: it would have the manifests, too.
	works := p.hub.Resource(workv1.GroupVersion.WithResource("manifestworks")).Namespace(after.Namespace)
	written, err := works.Patch(ctx, p.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("reporting on manifestwork %q: %w", p.name, err)
	}
	after.ResourceVersion, after.Generation = written.ResourceVersion, written.Generation
	p.state.work.Store(after)
	version := after.ResourceVersion // alone, or it would keep all of after
	p.state.written.Store(&version)
	return nil
}

// manifestConditions returns the entries of all manifests, whose conditions keep
// the transition times that they had.
func (p *pass) manifestConditions(before []workv1.ManifestCondition) []workv1.ManifestCondition {
	type key struct{ group, kind, namespace, name string }
	keyOf := func(m *workv1.ManifestResourceMeta) key { return key{m.Group, m.Kind, m.Namespace, m.Name} }
	old := make(map[key]int, len(before))
	for i := range before {
		old[keyOf(&before[i].ResourceMeta)] = i
	}
	entries := make([]entry, len(p.plan.items))
	for i, it := range p.plan.items {
		e := &entries[i]
		e.generation, e.ResourceMeta = p.work.Generation, it.meta()
		if at, ok := old[keyOf(&e.ResourceMeta)]; ok {
			e.had = &before[at]
		}
		p.fill(e, it)
	}
	p.limitFeedback(entries)
	list := make([]workv1.ManifestCondition, len(entries))
	for i := range entries {
		list[i] = entries[i].ManifestCondition
	}
	return list
}

// fill adds the conditions of an item to its entry.
func (p *pass) fill(e *entry, it *item) {
	applied := it.appliedCondition()
	e.set(applied)
	e.set(it.availableCondition())
	if it.observation != nil {
		e.observed(it.observation)
	}
	if it.resolved && it.refused == nil && (it.observation == nil || it.observation.feedback == nil) && p.plan.asksFeedback() {
		e.set(metav1.Condition{
			Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionTrue,
			Reason: workv1.ManifestReasonNoStatusFeedbackSynced, Message: "No feedback rule is for this object.",
		})
	}
	if applied.Status == metav1.ConditionTrue && complete(e.Conditions, e.generation) {
		applied.Message = "The object is complete, and is not applied again until the work changes."
		e.set(applied)
	}
	e.takeOthers()
}

func (it *item) meta() workv1.ManifestResourceMeta {
	return workv1.ManifestResourceMeta{
		Ordinal: int32(it.ordinal), //nolint:gosec // a work of 500 KiB has no 2^31 manifests
		Group:   it.manifest.Kind.Group, Version: it.manifest.Kind.Version, Kind: it.manifest.Kind.Kind,
		Resource: it.resource.Resource, Namespace: it.manifest.Namespace, Name: it.manifest.Name,
	}
}

func (it *item) appliedCondition() metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestReasonAppliedManifestComplete, Message: "The object is as the manifest says.",
	}
	if it.outcome.problem.Trouble != apply.TroubleNone {
		c.Status, c.Reason = metav1.ConditionFalse, workv1.ManifestReasonAppliedManifestFailed
		if it.outcome.problem.Trouble == apply.TroubleExpression {
			c.Reason = workv1.ManifestReasonAppliedManifestSSAIgnoreFieldError
		}
		c.Message = it.outcome.problem.Message
		return c
	}
	if it.strategy == apply.StrategyCreateOnly {
		c.Message = "The object exists and is left as it is, as updateStrategy CreateOnly says."
	}
	if it.outcome.note != "" {
		c.Message = it.outcome.note
	}
	if it.observation != nil && it.observation.rules != nil {
		for _, problem := range it.observation.rules.Problems() {
			c.Message += " Not followed: " + problem + "."
		}
	}
	return c
}

func (it *item) availableCondition() metav1.Condition {
	c := metav1.Condition{Type: workv1.ManifestConditionAvailable}
	switch {
	case it.outcome.presence == presenceYes:
		c.Status, c.Reason = metav1.ConditionTrue, workv1.ManifestReasonResourceAvailable
		c.Message = "The object exists on the cluster."
	case it.outcome.presence == presenceNo:
		c.Status, c.Reason = metav1.ConditionFalse, workv1.ManifestReasonResourceNotAvailable
		c.Message = "The object does not exist on the cluster."
	case !it.resolved:
		c.Status, c.Reason = metav1.ConditionUnknown, workv1.ManifestReasonIncompleteResourceMeta
		c.Message = "It is not known which object this is."
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, workv1.ManifestReasonFetchingResourceFailed
		c.Message = "It is not known whether the object exists."
	}
	return c
}

func (p *pass) appliedCondition() metav1.Condition {
	failed := p.named(func(it *item) bool { return it.outcome.problem.Trouble != apply.TroubleNone })
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkComplete, Message: "All manifests are applied.",
	}
	if failed != "" {
		c.Message = "Not all manifests are applied; status.resourceStatus tells why: " + failed + "."
	}
	stuck := slices.ContainsFunc(p.leftovers, func(l leftover) bool { return l.problem.Trouble != apply.TroubleNone })
	if failed != "" || stuck {
		c.Status, c.Reason = metav1.ConditionFalse, workv1.ManifestWorkReasonAppliedManifestWorkFailed
	}
	if len(p.leftovers) > 0 && (stuck || p.slowPrune()) {
		c.Message += " Objects that are not in the work any more are still there: " + describe(p.leftovers)
	}
	if note, failed := p.listNote(); note != "" {
		c.Message += " " + note
		if failed {
			c.Status, c.Reason = metav1.ConditionFalse, workv1.ManifestWorkReasonAppliedManifestWorkFailed
		}
	}
	return c
}

// slowPrune tells whether an object that has to go is held by a finalizer;
// others are gone in a moment and not worth a write.
func (p *pass) slowPrune() bool {
	return slices.ContainsFunc(p.leftovers, func(l leftover) bool { return len(l.finalizers) > 0 })
}

func (p *pass) availableCondition() metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionAvailable, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonResourcesAvailable, Message: "All objects exist on the cluster.",
	}
	missing := p.named(func(it *item) bool { return it.outcome.presence == presenceNo })
	unknown := p.named(func(it *item) bool { return it.outcome.presence == presenceUnknown })
	switch {
	case missing != "":
		c.Status, c.Reason = metav1.ConditionFalse, workv1.ManifestWorkReasonResourcesNotAvailable
		c.Message = "Not all objects exist on the cluster; missing: " + missing + "."
	case unknown != "":
		c.Status, c.Reason = metav1.ConditionUnknown, workv1.ManifestWorkReasonResourcesStatusUnknown
		c.Message = "It is not known whether all objects exist on the cluster: " + unknown + "."
	}
	return c
}

// named returns the first manifests that the function picks, "" if none.
func (p *pass) named(pick func(*item) bool) string {
	var names []string
	more := 0
	for _, it := range p.plan.items {
		switch {
		case !pick(it):
		case len(names) == namedObjectsMax:
			more++
		default:
			names = append(names, it.String())
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// String names the manifest for messages.
func (it *item) String() string {
	name := it.manifest.Name
	if it.manifest.Namespace != "" {
		name = it.manifest.Namespace + "/" + name
	}
	return strings.TrimSpace(fmt.Sprintf("manifest %d %s", it.ordinal, strings.TrimSpace(it.manifest.Kind.Kind+" "+name)))
}

// reportDeletion says what the deletion of a record waits for, once it takes long.
func (p *pass) reportDeletion(ctx context.Context, of *pass) error {
	took := p.options.Clock.Since(p.state.leavingSince)
	if took < deletionReportAfter {
		p.comeBack(deletionReportAfter - took)
		return nil
	}
	message := "The objects on the cluster are looked for."
	switch unlisted := of.unlisted(); {
	case p.trouble != nil:
		message = "The objects on the cluster cannot be removed: " + saying(p.trouble)
	case len(p.leftovers) > 0:
		message = "Waiting for objects on the cluster to go: " + describe(p.leftovers)
	case len(unlisted) > 0:
		message = "Looking for the objects on the cluster. Not listed yet: " + strings.Join(unlisted, "; ") + "."
	}
	conditions.Set(&p.work.Status.Conditions, p.work.Generation, metav1.Condition{
		Type: workv1.ManifestWorkConditionDeleting, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonWorkDeleting, Message: message,
	})
	return p.writeStatus(ctx)
}

// unlisted names the types whose objects are not known, with what the server says.
func (p *pass) unlisted() []string {
	var texts []string
	for _, resource := range typesOf(p.record) {
		if err := p.inventory.State(resource.GroupResource()); errors.Is(err, inventory.ErrPending) {
			text := resource.GroupResource().String()
			if err != inventory.ErrPending { //nolint:errorlint // alone, it is only a matter of time
				text += " (" + saying(err) + ")"
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// saying returns what a server said in an error. Other errors can read
// differently each time.
func saying(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return sentence(status.Status().Message)
	}
	return "The cluster does not answer."
}

// describe names leftovers and what holds them.
func describe(leftovers []leftover) string {
	var texts []string
	for i, left := range leftovers {
		if i == namedObjectsMax {
			texts = append(texts, fmt.Sprintf("and %d more", len(leftovers)-i))
			break
		}
		text := left.object.String()
		switch {
		case left.problem.Trouble != apply.TroubleNone:
			text += " (" + left.problem.Message + ")"
		case len(left.finalizers) > 0:
			text += fmt.Sprintf(" (held by its finalizers %s since %s)",
				strings.Join(left.finalizers, ", "), time.Unix(left.since, 0).UTC().Format(time.RFC3339))
		case left.object.Resource == "namespaces":
			text += " (ends when its content is gone)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + "."
}

// sentence makes an error text a sentence.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
