// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

const (
	// leaseSecondsDefault is spec.leaseDurationSeconds where it is 0.
	leaseSecondsDefault = 60
	// leaseSecondsHasty is the least that a hurry makes of it: clocks differ, and
	// requests take time.
	leaseSecondsHasty = 15
)

// GiveUp has the hub not wait for the agent of a cluster that is being deleted,
// from so long after its deletion on, unless the agent is heard of. A cluster that
// is not being deleted is left as it is, and one that is not there is no error.
//
// As the hub holds an agent for alive until five heartbeats are missing, which is
// five minutes by default, more heartbeats are asked for.
func GiveUp(ctx context.Context, c client.Client, name string, after time.Duration) error {
	cluster := &clusterv1.ManagedCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if err == nil && !cluster.DeletionTimestamp.IsZero() {
		before := cluster.DeepCopy()
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterv1.AnnotationDetachDeadline, after.String())
		cluster.Spec.LeaseDurationSeconds = hastyLeaseSeconds(cluster.Spec.LeaseDurationSeconds)
		err = c.Patch(ctx, cluster, client.MergeFrom(before))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("have the hub give up cluster %q if it is unreachable: %w", name, err)
	}
	return nil
}

// hastyLeaseSeconds is a fourth of the time between two heartbeats. Five times that is more
// than the whole of it, so that an agent which is alive, and has not heard of the
// change yet, is not late.
func hastyLeaseSeconds(seconds int32) int32 {
	if seconds <= 0 {
		seconds = leaseSecondsDefault
	}
	return min(seconds, max(seconds/4, leaseSecondsHasty))
}
