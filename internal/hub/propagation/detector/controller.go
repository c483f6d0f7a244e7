// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// DetectionDeps are what the controller works with.
type DetectionDeps struct {
	// Client reads policies, overrides and bindings from a cache, and Live from the
	// API server.
	Client    client.Client
	Live      client.Reader
	Templates *templates.Templates
	Objects   templates.HubObjects
	Fleet     *fleet.Fleet
	Store     store.BindingStore
	Chain     interpret.Chain
	// Interpreters are the customizations in Chain, which have to be loaded.
	Interpreters *interpreters.KnownInterpreters
	Clock        clock.Clock
	Events       *events.Recorder
	// Refusals counts the claims that the hub refuses.
	Refusals *prometheus.CounterVec
	// Touched is told of a binding whose object has changed in something that the
	// binding does not say.
	Touched func(types.NamespacedName)
	// Changed has an object looked at by another key.
	Changed func(templates.Key)
	// Hub says what is left alone on a shared hub.
	Hub scope.Hub
	// Preempts says that policies may take objects over from others, and Prioritizes
	// that they may ask to be looked at first.
	Preempts, Prioritizes bool
	// Groups says that policies may keep workloads together, or apart.
	Groups bool
	// Components says that objects with several pod templates are placed as a whole.
	Components bool
}

// DetectionController finds policies for the objects of the hub.
type DetectionController struct {
	DetectionDeps

	binder   bindingWriter
	chooser  chooser
	refusals claimRefusals
	asking   *priorityPolicies
	// ranks are how important objects are, as far as ranking has found out.
	ranks   *order.Ranks[templates.Key]
	ranking *inbox.AsideKeys[templates.Key]
	bound   *boundKinds
	// policies are the changes of policies.
	policies *inbox.ChangeQueue[templates.Key]
}

// NewDetectionController returns the controller.
func NewDetectionController(d DetectionDeps) *DetectionController {
	c := &DetectionController{
		DetectionDeps: d, binder: bindingWriter{d}, chooser: chooser{d, &claims.Selections{}}, refusals: claimRefusals{d.Objects, d.Events, d.Refusals},
		asking: &priorityPolicies{}, ranks: &order.Ranks[templates.Key]{}, bound: newBoundKinds(d.Templates.UseKinds),
	}
	c.ranking = inbox.NewAsideKeys(namespaceOf, c.raiseRank)
	c.policies = inbox.NewChangeQueue(c.enqueuePolicyObjects)
	return c
}

// Reconcile finds the policy for one object, lets it claim the object, and makes
// the binding say what both ask for.
func (c *DetectionController) Reconcile(ctx context.Context, key templates.Key) (ctrl.Result, error) {
	ctx, end := c.Objects.Memory.BeginReservation(ctx, key.Name.Namespace)
	defer end()
	versions := c.chooser.kindVersions(key.Kind)
	if key.Kind != versions[0] { // or else one object would be looked at twice at a time
		c.Changed(templates.Key{Kind: versions[0], Name: key.Name})
		return ctrl.Result{}, nil
	}
	if err := errors.Join(c.Fleet.LoadClusters(ctx, c.Live), c.Interpreters.EnsureLoaded(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	template, known := c.Templates.Get(key)
	switch {
	case !known:
		return ctrl.Result{}, nil // it comes again when its kind has been listed
	case template == nil:
		return ctrl.Result{}, c.cleanUpGoneObject(ctx, key)
	}
	bindings, err := lookup.FindBindings(ctx, c.Client, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !template.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.releaseDeleting(ctx, key, versions, template, bindings.OfObject(template.UID))
	}
	if decision.DecideClaim(template, decision.ObjectFacts{Fleet: c.Fleet.Snapshot()}).Code == decision.Reserved { // whichever policy selects it
		return ctrl.Result{}, c.withdrawReserved(ctx, key, template, bindings)
	}
	if stale := bindings.ExceptObject(template.UID); len(stale) > 0 {
		return ctrl.Result{}, c.deleteStaleBindings(ctx, key, template.UID, stale)
	}
	return c.decideObject(ctx, key, versions, template, bindings)
}

// decideObject decides which policy sends an object that is not reserved, and acts on it.
func (c *DetectionController) decideObject(
	ctx context.Context, key templates.Key, versions []schema.GroupVersionKind, template *metav1.PartialObjectMetadata, bindings lookup.ObjectBindings,
) (ctrl.Result, error) {
	present := bindings.OfObject(template.UID)
	policy, of, err := c.chooser.choosePolicy(ctx, key, versions, template, claims.ClaimHolder(template, present))
	if err != nil {
		return ctrl.Result{}, err
	}
	key.Kind = versions[of]
	template = asVersion(template, versions[of])
	facts, err := c.gatherClaimFacts(ctx, template, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch reason := decision.DecideClaim(template, facts); {
	case reason.ReleasesObject():
		c.reportReason(template, reason)
		return ctrl.Result{}, c.releaseObject(ctx, key, template, present)
	case claims.PermanentPolicyID(policy) == "":
		return ctrl.Result{}, nil // it comes again when the policy has an ID
	case reason.Code != decision.Applied:
		c.reportReason(template, reason)
		return ctrl.Result{}, nil // what is missing brings it back when it comes
	default:
		return c.propagateObject(ctx, key, template, policy, bindings)
	}
}

// propagateObject lets a policy claim an object, and makes the binding say what both ask
// for.
func (c *DetectionController) propagateObject(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, bindings lookup.ObjectBindings,
) (ctrl.Result, error) {
	ctx, wait := c.binder.beginWrites(ctx, template, policy)
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if postponed, err := c.postponeClaim(ctx, key, template, policy, bindings.OfObject(template.UID)); postponed || err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	object, err := c.claimObject(ctx, key, template, policy, "")
	if err == nil && object == nil {
		object, err = c.Objects.GetSince(ctx, key, template)
	}
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != template.UID {
		return ctrl.Result{}, nil // it comes again as its watch tells that
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return c.binder.bindObject(ctx, key, object, policy, bindings)
}

// claimObject writes the marks of the policy to the object, and how it was when it began
// to wait for a change, if it does. It returns the object as it is then; nil if it
// has them. Of a role or the binding of one its binding alone has them if the hub
// refuses: it lets nobody change what gives rights that he does not have. Other refusals
// are told.
func (c *DetectionController) claimObject(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, seen string,
) (*unstructured.Unstructured, error) {
	labels, annotations := claims.MarksForPolicy(policy).MetadataChanges(template)
	setTemplateAnnotation(annotations, template, seen)
	if len(labels)+len(annotations) == 0 {
		return nil, nil //nolint:nilnil // there was nothing to write
	}
	from, err := c.preemptedPolicy(ctx, key, template, policy)
	if err != nil {
		return nil, err
	}
	object, err := c.Objects.MarkObject(ctx, key, template.UID, labels, annotations)
	c.recordPreemption(template, from, policy, err)
	if isUnmarkable(key, err) {
		return nil, nil //nolint:nilnil // it stays as it is
	}
	if err != nil {
		return nil, c.refusals.reportRefusedClaim(ctx, key, template, policy, err)
	}
	return object, nil
}

// isUnmarkable reports whether the hub has refused to let an object be marked because
// of the rights that it gives. Of the binding of a role that is not there it says that it
// is not found: about the role, and in words that could be about the binding.
func isUnmarkable(key templates.Key, err error) bool {
	binding := strings.HasSuffix(key.Kind.Kind, "Binding")
	return key.Kind.Group == rbacv1.GroupName && (apierrors.IsForbidden(err) || binding && apierrors.IsNotFound(err))
}

// releaseObject takes the marks of policies off an object that none matches any more,
// and off its binding. What is in the clusters stays, and follows the object in all
// but its replicas, whose clusters nobody chooses any more. The binding is the last, as
// its marks bring the object back if we are stopped in between.
func (c *DetectionController) releaseObject(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, present lookup.Binding) error {
	if err := c.unclaimObject(ctx, key, template); err != nil {
		return err
	}
	if present == nil {
		return nil
	}
	if demand.IsBoundByPolicy(present) { // or else who needs it tells
		c.Touched(client.ObjectKeyFromObject(present))
	}
	return c.binder.unmarkBinding(ctx, present)
}

// releaseDeleting releases an object that is being deleted from the policy that has claimed it, if
// that does not select it any more: it may keep its finalizers for ever, and must not keep
// the policy from being deleted. Its binding tells of the finalizers. All else is done when
// it is gone, and it comes again then.
func (c *DetectionController) releaseDeleting(
	ctx context.Context, key templates.Key, versions []schema.GroupVersionKind, template *metav1.PartialObjectMetadata, present lookup.Binding,
) error {
	if present != nil {
		c.Touched(client.ObjectKeyFromObject(present))
	}
	holder := claims.ClaimHolder(template, present)
	if !claims.HasClaimMarks(holder) {
		return nil
	}
	policy, _, err := c.chooser.choosePolicy(ctx, key, versions, template, holder)
	if err != nil || policy != nil && claims.PolicyClaimsObject(policy, holder) {
		return err
	}
	return c.releaseObject(ctx, key, template, present)
}

// unclaimObject takes the marks of policies off an object, if it is there.
func (c *DetectionController) unclaimObject(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata) error {
	labels, annotations := (claims.Marks{}).MetadataChanges(template)
	setTemplateAnnotation(annotations, template, "")
	if len(labels)+len(annotations) == 0 {
		return nil
	}
	_, err := c.Objects.MarkObject(ctx, key, template.UID, labels, annotations)
	if err == nil || isUnmarkable(key, err) {
		return nil
	}
	reason, err := c.refusals.judgeRefusal(ctx, key, template, err)
	if reason == "" {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("the hub refuses to remove the marks of a policy from the object (%s): %w", reason, err)
}

// withdrawReserved ends what was sent of an object that is reserved: its namespace has become
// that of a cluster, or a release that knew less has sent it.
func (c *DetectionController) withdrawReserved(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, bindings lookup.ObjectBindings) error {
	return errors.Join(c.unclaimObject(ctx, key, template), c.binder.deleteBindings(ctx, bindings.Own...))
}

// deleteStaleBindings deletes the bindings of earlier objects of the name. It comes again when
// they are gone, which those that are being deleted hear they may be.
func (c *DetectionController) deleteStaleBindings(ctx context.Context, key templates.Key, uid types.UID, stale []lookup.Binding) error {
	object, err := c.Objects.Get(ctx, key)
	if err != nil || object.GetUID() != uid {
		return client.IgnoreNotFound(err) // it comes again as its watch tells more
	}
	for _, b := range stale {
		c.Touched(client.ObjectKeyFromObject(b))
	}
	return c.binder.deleteBindings(ctx, stale...)
}

// cleanUpGoneObject deletes the bindings of an object that does not exist any more. What goes
// with them is removed from the clusters, so it is asked for once more. If there is
// no binding, there may be works of one that was lost.
func (c *DetectionController) cleanUpGoneObject(ctx context.Context, key templates.Key) error {
	bindings, err := lookup.FindBindings(ctx, c.Client, key)
	if err != nil {
		return err
	}
	if len(bindings.Own) == 0 {
		for _, name := range lookup.BindingNames(key) {
			c.Touched(name)
		}
		return nil
	}
	switch _, err := c.Objects.Get(ctx, key); {
	case err == nil:
		return nil // it comes again as its watch tells more
	case !apierrors.IsNotFound(err):
		c.Templates.AskObject(key) // its kind may go
		return err
	}
	return c.binder.deleteBindings(ctx, bindings.Own...)
}

// recordEvent records an event on an object of the hub that is about nothing else.
func (d DetectionDeps) recordEvent(object client.Object, eventType, reason, note string, args ...any) {
	d.Events.Eventf(object, nil, eventType, reason, action, note, args...)
}

const (
	// action is what events say that the controller was about.
	action                       = "Propagate"
	reasonApplyPolicySucceeded   = "ApplyPolicySucceed"
	reasonPreemptPolicySucceeded = "PreemptPolicySucceed"
	reasonPreemptPolicyFailed    = "PreemptPolicyFailed"
	reasonGetReplicasFailed      = "GetReplicasFailed"
	reasonGetComponentsFailed    = "GetComponentsFailed"
)
