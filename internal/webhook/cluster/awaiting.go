// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/access"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=list

// awaiting returns the value of LabelAwaitingAcceptance that a cluster has to
// have, or "" if it must not have the label. What was sent does not count: who
// could change the label could have more clusters wait than the hub allows.
func awaiting(old, cluster *clusterv1.ManagedCluster, requester string) string {
	switch {
	case cluster.Spec.HubAcceptsClient:
		return ""
	case old == nil:
		return markOf(requester)
	case old.Spec.HubAcceptsClient: // it does not wait, it was refused
		return ""
	default:
		return old.Labels[clusterv1.LabelAwaitingAcceptance]
	}
}

// markOf returns what stands for a user in LabelAwaitingAcceptance. User names
// themselves do not fit into a label.
func markOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:8])
}

// selectAwaiting selects the clusters of a user that wait for acceptance.
func selectAwaiting(user string) string {
	return labels.Set{clusterv1.LabelAwaitingAcceptance: markOf(user)}.String()
}

// mayAwait limits how many clusters that wait for acceptance come from one user:
// a bootstrap token could otherwise fill the hub with them. Who may accept them
// is not limited, and below the limit nobody is asked about. If the name is
// taken it is for the API server to say so, after the webhooks: agents that
// register again rely on that answer.
func (v *validator) mayAwait(ctx context.Context, user, cluster string) error {
	if v.maxUnaccepted == 0 {
		return nil
	}
	waiting, err := v.count(ctx, metav1.ListOptions{LabelSelector: selectAwaiting(user), Limit: int64(v.maxUnaccepted)})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if waiting < v.maxUnaccepted {
		return nil
	}
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, cluster).String()
	if taken, err := v.count(ctx, metav1.ListOptions{FieldSelector: named}); err != nil {
		return apierrors.NewInternalError(err)
	} else if taken > 0 {
		return nil
	}
	return require(ctx, v.access, acceptance(cluster), func(missing error) error {
		return forbidden(clustersResource, cluster, fmt.Errorf(
			"%d clusters of user %q wait for acceptance, and there may not be more: accept or delete some of them, which \"kubectl get managedclusters -l %s\" lists; creating more requires a permission: %w",
			v.maxUnaccepted, user, selectAwaiting(user), missing))
	})
}

// clusterCounter returns a function that counts ManagedClusters, up to the limit
// of the options. It asks the API server each time: a cache would miss the
// latest, of which a flood has many.
func clusterCounter(clients metadata.Interface) func(context.Context, metav1.ListOptions) (int, error) {
	clusters := clients.Resource(clusterv1.GroupVersion.WithResource(clustersResource))
	return func(ctx context.Context, options metav1.ListOptions) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, access.ReviewTimeout)
		defer cancel()
		list, err := clusters.List(ctx, options)
		if err != nil {
			return 0, fmt.Errorf("counting ManagedClusters: %w", err)
		}
		return len(list.Items), nil
	}
}
