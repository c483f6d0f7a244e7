// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

const (
	// indexCluster finds the undecided requests of a cluster, indexApproved those
	// that somebody has approved.
	indexCluster  = "undecidedOfCluster"
	indexApproved = "approvedOfCluster"
	// indexRequester finds all requests of a user for a cluster.
	indexRequester = "clusterAndRequester"
	// indexAutomatic finds the clusters that were accepted automatically for a user.
	indexAutomatic = "acceptedForUser"
)

// SetupWithManager adds the controller to the manager. Requests that wait are
// looked at again when their cluster changes, and those that were too many when
// earlier ones are gone; nothing polls.
func (c *CSRApprovalController) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	csrs := &certificatesv1.CertificateSigningRequest{}
	for name, extract := range map[string]client.IndexerFunc{
		indexCluster: indexByCluster(isUndecided), indexApproved: indexByCluster(isApproved), indexRequester: indexByRequester,
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, csrs, name, extract); err != nil {
			return fmt.Errorf("indexing CertificateSigningRequests by %s: %w", name, err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1.ManagedCluster{}, indexAutomatic, indexByAutomatic); err != nil {
		return fmt.Errorf("indexing ManagedClusters by %s: %w", indexAutomatic, err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(csrs, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return isUndecided(e.Object) || isApproved(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool {
				return isUndecided(e.ObjectNew) || isApproved(e.ObjectNew) && !isApproved(e.ObjectOld)
			},
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&certificatesv1.CertificateSigningRequest{}, handler.EnqueueRequestsFromMapFunc(c.overdueRequests),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: func(event.UpdateEvent) bool { return false },
			})).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.undecidedRequests),
			builder.WithPredicates(predicate.Funcs{
				UpdateFunc: decisionMayChange,
				DeleteFunc: func(event.DeleteEvent) bool { return false },
			})).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.approvedRequests),
			builder.WithPredicates(predicate.Funcs{ // whose request may have been seen before itself
				UpdateFunc: func(event.UpdateEvent) bool { return false },
				DeleteFunc: func(event.DeleteEvent) bool { return false },
			})).
		Complete(conflict.RequeueConflicts(c))
}

// isUndecided leaves out the requests that somebody has decided about.
func isUndecided(obj client.Object) bool {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	return ok && !isDecided(csr)
}

// isApproved reports whether somebody has approved a request.
func isApproved(obj client.Object) bool {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	return ok && approvalOf(csr) != nil
}

// decisionMayChange reports whether a change of a cluster can change a decision.
func decisionMayChange(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
	after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
	if before == nil || after == nil {
		return true
	}
	condition := clusterv1.ManagedClusterConditionHubAccepted
	return clusterFacts(before, true) != clusterFacts(after, true) ||
		meta.IsStatusConditionTrue(before.Status.Conditions, condition) != meta.IsStatusConditionTrue(after.Status.Conditions, condition)
}

// undecidedRequests maps a cluster to its undecided requests, up to a limit of each requester.
func (c *CSRApprovalController) undecidedRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.indexedRequests(ctx, indexCluster, obj.GetName())
}

// approvedRequests maps a cluster to its approved requests, up to a limit of each requester.
func (c *CSRApprovalController) approvedRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.indexedRequests(ctx, indexApproved, obj.GetName())
}

// indexedRequests returns the requests of a cluster that an index has. The limit is that of each
// requester, so that the requests of one do not keep those of another from being looked at.
func (c *CSRApprovalController) indexedRequests(ctx context.Context, index, cluster string) []reconcile.Request {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{index: cluster}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing index gives an error
	}
	var requests []reconcile.Request
	of := map[string]int{}
	for i := range list.Items {
		user := list.Items[i].Spec.Username
		if of[user]++; of[user] <= RequestsMax {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return requests
}

// overdueRequests maps a request that is gone to the undecided ones of its requester
// for the same cluster, once these are few enough to be looked at.
func (c *CSRApprovalController) overdueRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	gone, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	err := c.Client.List(ctx, list, client.MatchingFields{indexRequester: requesterKey(gone)}, client.Limit(RequestsMax+1), client.UnsafeDisableDeepCopy)
	if err != nil || len(list.Items) > RequestsMax {
		return nil // only a missing index gives an error
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if !isDecided(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return requests
}

// hasTooManyRequests reports whether the requester has too many requests for the cluster.
func (c *CSRApprovalController) hasTooManyRequests(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (bool, error) {
	list := &certificatesv1.CertificateSigningRequestList{}
	err := c.Client.List(ctx, list, client.MatchingFields{indexRequester: requesterKey(csr)}, client.Limit(RequestsMax+1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing CertificateSigningRequests of user %q: %w", csr.Spec.Username, err)
	}
	return len(list.Items) > RequestsMax, nil
}

func indexByCluster(which func(client.Object) bool) client.IndexerFunc {
	return func(obj client.Object) []string {
		if !which(obj) {
			return nil
		}
		return []string{obj.GetLabels()[clusterv1.LabelClusterName]}
	}
}

func indexByRequester(obj client.Object) []string {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	return []string{requesterKey(csr)}
}

// indexByAutomatic returns the user for whom a cluster was accepted automatically, also if it is not
// accepted any more: what the hub has sent it is there until the cluster is deleted.
func indexByAutomatic(cluster client.Object) []string {
	annotations := cluster.GetAnnotations()
	if annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] == "" {
		return nil
	}
	return []string{annotations[clusterv1.AnnotationJoinRequestedBy]}
}

func requesterKey(csr *certificatesv1.CertificateSigningRequest) string {
	return csr.Labels[clusterv1.LabelClusterName] + "/" + csr.Spec.Username
}

// SlimRequest is the transformation of requests for the cache: it keeps what the controller
// looks at, and of a request that is too large to be an agent's not the request. All else
// is whatever its author likes, and would fill the memory. So what is in the cache is not
// to be written: see sign.
func SlimRequest(obj any) (any, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return obj, nil
	}
	trimmed := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: csr.Name, UID: csr.UID, ResourceVersion: csr.ResourceVersion, CreationTimestamp: csr.CreationTimestamp,
		},
		Spec:   csr.Spec,
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: csr.Status.Conditions},
	}
	for _, key := range []string{clusterv1.LabelClusterName, labelAddOn} {
		if value, ok := csr.Labels[key]; ok {
			metav1.SetMetaDataLabel(&trimmed.ObjectMeta, key, value)
		}
	}
	if len(csr.Spec.Request) > policy.RequestBytesMax {
		trimmed.Spec.Request = nil
	}
	return trimmed, nil
}

func renewReview(csr *certificatesv1.CertificateSigningRequest, cluster string) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range csr.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "clientcertificates",
			Verb: "renew", Name: cluster,
		},
	}}
}
