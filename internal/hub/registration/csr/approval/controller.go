// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

const (
	fieldOwner    = "registration-controller-csr"
	action        = "Approve" // what events say that the controller was about
	reconcilesMax = 8
	// RequestsMax is how many requests one user may have for one cluster at a
	// time, whether approved or not, before the hub stops looking at them. The API
	// server forgets approved ones after an hour and others after a day. An agent
	// makes at most clusterv1.CSRsPerAgentMax.
	RequestsMax = 3 * clusterv1.CSRsPerAgentMax
	// unwatchedRetry is when a request is looked at again whose requester lacks a
	// permission, or whose cluster has the name of somebody's namespace or labels of a set:
	// none of these is watched.
	unwatchedRetry = time.Minute
	// reasonFlood is the reason of the event about more than that.
	reasonFlood = "CertificateRequestFlood"
	// labelAddOn is on the requests of add-ons.
	labelAddOn = "open-cluster-management.io/addon-name"
)

// CSRApprovalDeps is what the controller needs.
type CSRApprovalDeps struct {
	Client client.Client
	// Live reads requests that are approved whole, and the namespaces of others: the cache
	// has neither.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Automatic are the users whose first requests are approved, and whose
	// clusters are accepted, without an administrator (feature gate
	// ManagedClusterAutoApproval). Empty means nobody.
	Automatic policy.AutoApproval
}

// CSRApprovalController approves certificate requests of agents.
type CSRApprovalController struct {
	CSRApprovalDeps
	quiet    *eventThrottle
	recent   *recentAcceptances
	verdicts *prometheus.CounterVec
}

// NewCSRApprovalController returns the controller.
func NewCSRApprovalController(d CSRApprovalDeps) *CSRApprovalController {
	return &CSRApprovalController{CSRApprovalDeps: d, quiet: newEventThrottle(d.Clock), recent: newRecentAcceptances(d.Clock), verdicts: newVerdictCounter()}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *CSRApprovalController) ControllerName() string { return "csr.approval" }

// Reconcile decides about one request.
func (c *CSRApprovalController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := c.Client.Get(ctx, req.NamespacedName, csr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name := csr.Labels[clusterv1.LabelClusterName]
	mc := &clusterv1.ManagedCluster{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, mc)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	exists := err == nil
	if isDecided(csr) {
		return ctrl.Result{}, c.recordAgent(ctx, csr)
	}
	if flood, err := c.hasTooManyRequests(ctx, csr); err != nil {
		return ctrl.Result{}, err
	} else if flood {
		c.warnRefused(csr, mc, policy.RequestDecision{Reason: reasonFlood, Message: fmt.Sprintf(
			"user %q has more than %d certificate requests for cluster %q; they are ignored until there are fewer",
			csr.Spec.Username, RequestsMax, name)})
		return ctrl.Result{}, nil
	}
	decision, err := c.decideRequest(ctx, csr, mc, exists)
	if err != nil {
		return ctrl.Result{}, err
	}
	c.verdicts.WithLabelValues(string(decision.Verdict), string(decision.Kind)).Inc()
	switch decision.Verdict {
	case policy.Refuse:
		c.warnRefused(csr, mc, decision)
		if decision.Reason == policy.ReasonNotAuthorized || decision.Reason == policy.ReasonNotAutomatic {
			return ctrl.Result{RequeueAfter: unwatchedRetry}, nil
		}
	case policy.Approve:
		return ctrl.Result{}, c.approveRequest(ctx, csr, mc, decision)
	}
	return ctrl.Result{}, nil
}

// decideRequest decides about a request by what is known of its cluster, and by what only the API
// server knows.
func (c *CSRApprovalController) decideRequest(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, mc *clusterv1.ManagedCluster, exists bool,
) (policy.RequestDecision, error) {
	decision := policy.DecideRequest(policyRequest(csr), clusterFacts(mc, exists), c.Automatic)
	switch {
	case decision.Verdict != policy.Approve:
	case decision.Kind == policy.Renewal:
		allowed, err := c.mayRenew(ctx, csr, mc.Name)
		if err != nil {
			return policy.RequestDecision{}, err
		}
		if !allowed {
			return decision.NotAuthorized(csr.Spec.Username, mc.Name), nil
		}
	case !mc.Spec.HubAcceptsClient:
		return c.decideAcceptance(ctx, csr.Spec.Username, mc, decision)
	}
	return decision, nil
}

// decideAcceptance decides whether the hub accepts by itself a cluster that it would accept by what is known of
// the cluster alone.
func (c *CSRApprovalController) decideAcceptance(
	ctx context.Context, user string, mc *clusterv1.ManagedCluster, decision policy.RequestDecision,
) (policy.RequestDecision, error) {
	admitted, err := c.beginAcceptance(ctx, user, mc.Name)
	if err != nil {
		return policy.RequestDecision{}, err
	}
	if !admitted {
		return decision.TokenExhausted(user, mc.Name, c.Automatic.TokenClustersMax), nil
	}
	decision, err = c.decideName(ctx, mc, decision)
	if err != nil || decision.Verdict != policy.Approve {
		c.recent.endAcceptance(acceptance{user, mc.Name})
	}
	return decision, err
}

// decideName decides whether the name and the labels of a cluster let the hub accept it by itself.
func (c *CSRApprovalController) decideName(ctx context.Context, mc *clusterv1.ManagedCluster, decision policy.RequestDecision) (policy.RequestDecision, error) {
	taken, err := c.isNamespaceTaken(ctx, mc.Name)
	if err != nil {
		return policy.RequestDecision{}, err
	}
	if taken {
		return decision.NamespaceTaken(mc.Name), nil
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.Client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return policy.RequestDecision{}, fmt.Errorf("listing ManagedClusterSets, to find out which ones the labels of ManagedCluster %q put it into: %w", mc.Name, err)
	}
	for i := range sets.Items {
		if view.JoinsByLabels(&sets.Items[i], mc.Labels) {
			return decision.InSetByLabels(mc.Name, sets.Items[i].Name), nil
		}
	}
	return decision, nil
}

// beginAcceptance notes that a cluster is accepted for a user, and reports whether it may be: unless the user is that of a bootstrap
// token for which as many were accepted automatically as may be.
func (c *CSRApprovalController) beginAcceptance(ctx context.Context, user, cluster string) (bool, error) {
	if c.Automatic.TokenClustersMax == 0 || !boundtoken.IsTokenUser(user) {
		return true, nil
	}
	accepted := &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, accepted, client.MatchingFields{indexAutomatic: user}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the ManagedClusters that were accepted automatically for user %q: %w", user, err)
	}
	return c.recent.beginAcceptance(acceptance{user, cluster}, accepted.Items, c.Automatic.TokenClustersMax), nil
}

// isNamespaceTaken reports whether the hub has a namespace of the name of a cluster that it has not made for it.
// It asks the API server, as the cache has the namespaces of clusters only.
func (c *CSRApprovalController) isNamespaceTaken(ctx context.Context, cluster string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: cluster}, namespace); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading Namespace %q, to find out whether it is for the cluster of this name: %w", cluster, err)
	}
	return namespace.Labels[clusterv1.LabelClusterName] != cluster, nil
}

// approveRequest approves a request. For a first one, it accepts the cluster before:
// many may hold the credential that the request was made with, so the cluster
// has to be taken by this request before anybody gets a certificate for it.
func (c *CSRApprovalController) approveRequest(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, mc *clusterv1.ManagedCluster, decision policy.RequestDecision,
) error {
	if decision.Kind == policy.Bootstrap {
		if err := c.acceptCluster(ctx, mc, csr.Spec.Username, decision); err != nil {
			c.recent.endAcceptance(acceptance{csr.Spec.Username, mc.Name})
			return client.IgnoreNotFound(err)
		}
	}
	if err := c.submitApproval(ctx, csr, decision); err != nil {
		return err
	}
	c.Events.Eventf(mc, csr, corev1.EventTypeNormal, decision.Reason, action,
		"CertificateSigningRequest %q of user %q was approved: %s", csr.Name, csr.Spec.Username, decision.Message)
	return nil
}

// submitApproval approves a request, which makes the API server's signer sign it. It does
// so by an update, as all do: who may grant the hub that may not grant it more. An
// update writes all of the request, of which the cache has a part; see SlimRequest.
func (c *CSRApprovalController) submitApproval(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, decision policy.RequestDecision) error {
	approved := &certificatesv1.CertificateSigningRequest{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(csr), approved); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading CertificateSigningRequest %q to approve it: %w", csr.Name, err)
	}
	approved.ResourceVersion = csr.ResourceVersion // of what was decided about: a later one is a conflict
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: decision.Reason, Message: decision.Message,
	})
	err := c.Client.SubResource("approval").Update(ctx, approved, client.FieldOwner(fieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("approving CertificateSigningRequest %q: %w", csr.Name, err)
	}
	return nil
}

// acceptCluster accepts the cluster whose join a user asked for, once in its life: an
// administrator who denies it has the last word. It notes who is let in.
func (c *CSRApprovalController) acceptCluster(ctx context.Context, mc *clusterv1.ManagedCluster, user string, decision policy.RequestDecision) error {
	before := mc.DeepCopy()
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationJoinRequestedBy, user)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationJoinKey, decision.Key)
	known := policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents])
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, string(known.WithAgent(decision.Agent)))
	if _, done := mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn]; !mc.Spec.HubAcceptsClient && !done {
		mc.Spec.HubAcceptsClient = true
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAutomaticallyAcceptedOn, c.Clock.Now().UTC().Format(timeFormat))
	}
	if equality.Semantic.DeepEqual(before, mc) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("accepting ManagedCluster %q: %w", before.Name, err)
	}
	return nil
}

// warnRefused tells an administrator of a request that is refused, on the request and
// on the cluster, once in a while.
func (c *CSRApprovalController) warnRefused(csr *certificatesv1.CertificateSigningRequest, mc *clusterv1.ManagedCluster, decision policy.RequestDecision) {
	what := csr.Labels[clusterv1.LabelClusterName] + "/" + decision.Reason
	if c.quiet.allowEvent("request/" + what) {
		c.Events.Eventf(csr, nil, corev1.EventTypeWarning, decision.Reason, action, "not approved: %s", decision.Message)
	}
	// A request may be seen before its cluster, which is told when it is there.
	if mc.Name != "" && c.quiet.allowEvent("cluster/"+what) {
		c.Events.Eventf(mc, csr, corev1.EventTypeWarning, decision.Reason, action,
			"CertificateSigningRequest %q of user %q was not approved: %s", csr.Name, csr.Spec.Username, decision.Message)
	}
}

// clusterFacts are what the policy needs to know of the cluster.
func clusterFacts(mc *clusterv1.ManagedCluster, exists bool) policy.ClusterFacts {
	if !exists {
		return policy.ClusterFacts{}
	}
	_, automatic := mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn]
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	decided := automatic || meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil
	return policy.ClusterFacts{
		Exists:    true,
		Accepted:  mc.Spec.HubAcceptsClient,
		Denied:    !mc.Spec.HubAcceptsClient && decided,
		Deleting:  !mc.DeletionTimestamp.IsZero(),
		Joined:    meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined),
		Alive:     available != nil && available.Status != metav1.ConditionUnknown,
		WaitsFor:  clusterv1.AwaitingMarkOf(mc),
		Requester: mc.Annotations[clusterv1.AnnotationJoinRequestedBy],
		Key:       mc.Annotations[clusterv1.AnnotationJoinKey],
		Agents:    policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents]),
		Set:       mc.Labels[clusterv1.LabelClusterSet],
	}
}

func policyRequest(csr *certificatesv1.CertificateSigningRequest) policy.SigningRequest {
	return policy.SigningRequest{
		SignerName:   csr.Spec.SignerName,
		Usages:       csr.Spec.Usages,
		Username:     csr.Spec.Username,
		Groups:       csr.Spec.Groups,
		PEM:          csr.Spec.Request,
		ClusterLabel: csr.Labels[clusterv1.LabelClusterName],
		AddOnLabel:   csr.Labels[labelAddOn],
	}
}

// isDecided reports whether a request was approved or denied, by whomever.
func isDecided(csr *certificatesv1.CertificateSigningRequest) bool {
	for i := range csr.Status.Conditions {
		switch csr.Status.Conditions[i].Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return true
		}
	}
	return false
}

// mayRenew asks the API server whether the requester may renew certificates of
// this very cluster.
func (c *CSRApprovalController) mayRenew(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, cluster string) (bool, error) {
	review := renewReview(csr, cluster)
	if err := c.Client.Create(ctx, review); err != nil {
		if apierrors.IsInvalid(err) {
			return false, nil
		}
		return false, fmt.Errorf("reviewing whether user %q may renew certificates of cluster %q: %w", csr.Spec.Username, cluster, err)
	}
	return review.Status.Allowed, nil
}

// timeFormat is that of the annotation automatically-accepted-on.
const timeFormat = time.RFC3339
