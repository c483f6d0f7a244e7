// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=list;watch

// awaitingMark returns the value of AnnotationAwaitingAcceptance that a cluster has to
// have, or "" if it must not have it. What was sent does not count: who could change
// the annotation could have more clusters wait than the hub allows.
func awaitingMark(old, cluster *clusterv1.ManagedCluster, requester string) string {
	switch {
	case cluster.Spec.HubAcceptsClient:
		return ""
	case old == nil:
		return clusterv1.AwaitingMark(requester)
	case old.Spec.HubAcceptsClient: // it does not wait, it was refused
		return ""
	default:
		return clusterv1.AwaitingMarkOf(old)
	}
}

// namesAwaiting is a JSONPath for kubectl: the names of the clusters of a user that wait
// for acceptance.
func namesAwaiting(user string) string {
	return fmt.Sprintf(`{.items[?(@.metadata.annotations.%s==%q)].metadata.name}`,
		strings.ReplaceAll(clusterv1.AnnotationAwaitingAcceptance, ".", `\.`), clusterv1.AwaitingMark(user))
}

// checkWaitingClusters limits how many clusters come from one user that wait for acceptance,
// or that the hub has accepted by itself for a bootstrap token: whoever has one could
// otherwise fill the hub with them. Who may accept them is not limited, and below the
// limit nobody is asked about.
func (v *clusterValidator) checkWaitingClusters(ctx context.Context, user, cluster string) error {
	if v.maxUnaccepted == 0 {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	admitted, err := v.admit(ctx, clusterv1.AwaitingMark(user), cluster, ptr.Deref(request.DryRun, false))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if admitted {
		return nil
	}
	counted := ""
	if boundtoken.IsTokenUser(user) {
		counted = ". Those that the hub has accepted automatically count, too: let others join with another token"
	}
	return requirePermission(ctx, v.access, acceptAttributes(cluster), func(missing error) error {
		return forbiddenError(clustersResource, cluster, fmt.Errorf(
			"%d clusters of user %q wait for acceptance, and there may not be more: accept or delete some of them, which \"kubectl get managedclusters -o jsonpath='%s'\" lists%s; creating more requires a permission: %w",
			v.maxUnaccepted, user, namesAwaiting(user), counted, missing))
	})
}

// waitingClusters knows how many clusters count for the limit of each user.
type waitingClusters struct {
	*waitTally
	limit int
}

// watchWaitingClusters begins to watch, until ctx ends.
func watchWaitingClusters(ctx context.Context, clients metadata.Interface, limit int, clock clock.PassiveClock) *waitingClusters {
	resource := clients.Resource(clusterv1.GroupVersion.WithResource(clustersResource))
	shown, synced := watchCounted(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, keepMark)
	return &waitingClusters{waitTally: newWaitTally("clusters wait for acceptance", clock, shown, synced), limit: limit}
}

// keepMark keeps the name of a cluster and the mark of the user for whom it counts.
func keepMark(object any) (any, error) {
	full, is := object.(*metav1.PartialObjectMetadata)
	if !is {
		return object, nil
	}
	if mark := countedFor(full); mark != "" {
		return keepTallyKeys(full.ObjectMeta, mark), nil
	}
	return keepTallyKeys(full.ObjectMeta), nil
}

// countedFor returns the mark of the user for whose limit a cluster counts, "" if there is none: while it
// waits for acceptance, and for good if the hub accepted it by itself because of a bootstrap
// token, as nobody has looked at it then either. Users whom an administrator has named
// (autoApproveUsers) are not limited in what is accepted.
func countedFor(cluster metav1.Object) string {
	annotations := cluster.GetAnnotations()
	requester := annotations[clusterv1.AnnotationJoinRequestedBy]
	if annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] != "" && boundtoken.IsTokenUser(requester) {
		return clusterv1.AwaitingMark(requester)
	}
	return clusterv1.AwaitingMarkOf(cluster)
}

// admitWaiting reports whether a cluster may be made for the user of the mark, and counts it from
// now on unless it is only tried. If its name is taken it is for the API server to say
// so, after the webhooks: agents that register again rely on that answer. It fails while
// nothing is known yet.
func (w *waitingClusters) admitWaiting(ctx context.Context, mark, cluster string, try bool) (bool, error) {
	exceeded, err := w.admitWithinBounds(ctx, cluster, try, []tallyBound{{key: mark, limit: w.limit}})
	return exceeded == nil && err == nil, err
}
