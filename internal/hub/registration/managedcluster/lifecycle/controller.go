// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/gc"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/taint"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

const (
	// fieldOwner owns HubAcceptedManagedCluster and Deleting.
	fieldOwner = "registration-controller"
	// reconcilesMax is how many clusters are worked on at once. Each waits for the
	// API server most of the time.
	reconcilesMax = 24
	// namespaceRetry is when a namespace that is not ours is looked at again,
	// which is not watched.
	namespaceRetry = time.Minute
	// twinRetry is when a cluster is looked at again that is there already under another name:
	// that the other one leaves the fleet is watched, that an administrator gives it another
	// identity is not.
	twinRetry = 10 * time.Minute
)

// ResourceCollector deletes what a cluster leaves in its namespace and tells what
// remains.
type ResourceCollector interface {
	Collect(ctx context.Context, mc *clusterv1.ManagedCluster) (gc.Remaining, error)
}

// ClusterLifecycleDeps is what the controller needs.
type ClusterLifecycleDeps struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Collector is nil if what is in the namespace is left alone (feature gate
	// ResourceCleanup).
	Collector ResourceCollector
	// OwnNamespace is that of this component, which no cluster may have.
	OwnNamespace string
	// Rights are those of the hub. It can give clusters no more, and keeps no
	// ClusterConnections if it may not.
	Rights rights.Rights
	// Unique keeps a cluster out that is there under another name, in every case
	// (feature gate UniqueClusterIdentity). Otherwise two that have agents of their
	// own may be in the fleet side by side.
	Unique bool
	// Mirrored says that ClusterConnections mirror their ManagedClusters, labels
	// included (feature gate AggregatedAPI).
	Mirrored bool
	// CountPods has agents count what pods request: replicas are placed by it.
	CountPods bool
	// Customizations lets agents read what users of the hub say of kinds (feature gate
	// Propagation).
	Customizations bool
	// AgentLabels are the labels that agents may change whose ClusterConnection does
	// not say which.
	AgentLabels agentlabels.AllowedKeys
}

// ClusterLifecycleController accepts, denies and removes clusters.
type ClusterLifecycleController struct {
	ClusterLifecycleDeps
	writer  *clusterWriter
	holders identityHolders
}

// NewClusterLifecycleController returns the controller.
func NewClusterLifecycleController(d ClusterLifecycleDeps) *ClusterLifecycleController {
	return &ClusterLifecycleController{ClusterLifecycleDeps: d, writer: &clusterWriter{
		client: d.Client, live: d.Live, ownNamespace: d.OwnNamespace, rights: d.Rights, mirrored: d.Mirrored,
		pods: podCounts(d.CountPods), customizations: d.Customizations,
	}}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterLifecycleController) ControllerName() string { return "managedcluster.lifecycle" }

// Reconcile walks one cluster through acceptance, denial or deletion.
func (c *ClusterLifecycleController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.Client.Get(ctx, req.NamespacedName, mc); apierrors.IsNotFound(err) {
		c.holders.dropIdentity(req.Name)
		return ctrl.Result{}, errors.Join(c.writer.deleteOrphanedConnection(ctx, req.Name), c.writer.removeLeftovers(ctx, req.Name))
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading ManagedCluster %q: %w", req.Name, err)
	}
	if err := annotateAwaiting(ctx, c.Client, mc); err != nil {
		return ctrl.Result{}, err
	}
	before := conditions.SelectByType(mc.Status.Conditions, ownedConditions()...)
	var result ctrl.Result
	var err error
	switch {
	case !mc.DeletionTimestamp.IsZero():
		result, err = c.finalize(ctx, mc)
		if err == nil && !controllerutil.ContainsFinalizer(mc, clusterv1.FinalizerAPIResourceCleanup) && len(mc.Finalizers) == 0 {
			return result, nil // it is gone
		}
	case mc.Spec.HubAcceptsClient:
		result, err = c.acceptCluster(ctx, mc)
	default:
		err = c.deny(ctx, mc)
	}
	after := conditions.SelectByType(mc.Status.Conditions, ownedConditions()...)
	if len(after) == 0 || saySame(before, after) {
		return result, err
	}
	c.recordConditionEvents(mc, before, after)
	return result, errors.Join(err, conditions.ApplyStatus(ctx, c.Client, mc, fieldOwner, after, nil))
}

// acceptCluster gives the cluster what it needs, and says so only when all is there:
// agents wait for the condition and then start at once.
func (c *ClusterLifecycleController) acceptCluster(ctx context.Context, mc *clusterv1.ManagedCluster) (ctrl.Result, error) {
	if why := c.unusableReason(mc.Name); why != "" {
		refuseNamespace(mc, why)
		return ctrl.Result{}, nil
	}
	if err := errors.Join(c.addFinalizer(ctx, mc), c.noteAgents(ctx, mc), c.warnRestored(ctx, mc), c.limitAgent(ctx, mc)); err != nil {
		return ctrl.Result{}, err
	}
	is, err := c.identify(ctx, mc)
	if err != nil {
		return ctrl.Result{}, err
	}
	// It must not matter what the agent of an accepted cluster claims later.
	if is.excluded && !saysAccepted(mc) {
		return c.refuseTwin(ctx, mc, is)
	}
	id := is.id
	if is.first != "" {
		id = ""
	}
	why, err := c.writer.grantAccess(ctx, mc, id, c.Clock.Now())
	switch {
	case why != "":
		refuseNamespace(mc, why)
		return ctrl.Result{RequeueAfter: namespaceRetry}, nil
	case err != nil:
		if isLastingError(err) && !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
			setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonAcceptError, err.Error())
		}
		return ctrl.Result{}, err
	}
	message, err := c.writer.acceptedMessage(ctx, mc)
	if err != nil {
		return ctrl.Result{}, err
	}
	setAccepted(mc, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted, message)
	setDuplicate(mc, is)
	if is.first != "" {
		return ctrl.Result{RequeueAfter: twinRetry}, nil
	}
	return ctrl.Result{}, nil
}

// deny takes the permissions back, at once and all of them but the one to see
// that the cluster is denied. A cluster that was never accepted has no condition
// and gets no role: whoever may request to join could fill the hub with them.
func (c *ClusterLifecycleController) deny(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	c.holders.dropIdentity(mc.Name)
	if c.unusableReason(mc.Name) != "" {
		return nil // it has nothing, and may not get even the little of others
	}
	known := isDecided(mc)
	if err := c.noteAgents(ctx, mc); err != nil {
		return err
	}
	if err := c.writer.reduceAccess(ctx, mc, known); err != nil || !known {
		return err
	}
	setDuplicate(mc, clusterStanding{})
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied,
		"the hub does not accept the cluster (any more): spec.hubAcceptsClient is false")
	return nil
}

// annotateAwaiting replaces the label by which an earlier release counted the clusters
// that wait for acceptance. The webhook does the same with any other change, and restores
// the annotation if somebody removes it.
func annotateAwaiting(ctx context.Context, c client.Client, mc *clusterv1.ManagedCluster) error {
	if _, labelled := mc.Labels[clusterv1.LabelAwaitingAcceptance]; !labelled {
		return nil
	}
	before := mc.DeepCopy()
	if mark := clusterv1.AwaitingMarkOf(mc); mark != "" && !mc.Spec.HubAcceptsClient {
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAwaitingAcceptance, mark)
	}
	delete(mc.Labels, clusterv1.LabelAwaitingAcceptance)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("replacing label %s of ManagedCluster %q by the annotation: %w", clusterv1.LabelAwaitingAcceptance, mc.Name, err)
	}
	if _, restored := mc.Labels[clusterv1.LabelAwaitingAcceptance]; restored {
		return fmt.Errorf("label %s of ManagedCluster %q was restored by the webhook of an earlier release: it goes when that is updated",
			clusterv1.LabelAwaitingAcceptance, mc.Name)
	}
	return nil
}

// addFinalizer puts the finalizer on before the first object is made for the cluster.
// The webhook does it already; where there is none, the taint that a cluster
// without an agent has comes with the same write.
func (c *ClusterLifecycleController) addFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	before := mc.DeepCopy()
	if !controllerutil.AddFinalizer(mc, clusterv1.FinalizerAPIResourceCleanup) {
		return nil
	}
	taint.UpdateTaints(mc)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("adding the finalizer to ManagedCluster %q: %w", mc.Name, err)
	}
	return nil
}

// noteAgents notes who the agents are of a cluster that was accepted before agents
// were noted, or whose annotation somebody removed: they are bound already.
func (c *ClusterLifecycleController) noteAgents(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !isDecided(mc) {
		return nil
	}
	binding := grants.ClusterRoleBinding(mc.Name)
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
	if apierrors.IsNotFound(err) { // or it lacks the label that it is cached by
		err = c.Live.Get(ctx, client.ObjectKeyFromObject(binding), binding)
	}
	if err != nil {
		return wrapObjectError(client.IgnoreNotFound(err), "reading", "ClusterRoleBinding", binding.Name)
	}
	agents := grants.KnownAgents(mc, binding)
	if agents == policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents]) {
		return nil
	}
	before := mc.DeepCopy()
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, string(agents))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return wrapObjectError(c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)), "noting the agents of", "ManagedCluster", mc.Name)
}

// isDecided reports whether the hub has decided about the cluster before.
func isDecided(mc *clusterv1.ManagedCluster) bool {
	return meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil
}

func (c *ClusterLifecycleController) unusableReason(cluster string) string {
	if cluster == c.OwnNamespace {
		return fmt.Sprintf("%q is the name of the hub's own namespace; give the cluster another name", cluster)
	}
	return grants.UnusableReason(cluster)
}

// isLastingError reports whether an error will stay until someone does something.
func isLastingError(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}
