// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/nodes"
	"github.com/capstan-io/capstan/internal/backoff"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/fleet"
)

// fieldOwner owns what this package writes into the status. The push agent has
// an owner of its own for what it says of the connection.
const fieldOwner = "cluster-info"

// reporter reports what one cluster is and has. Only its loop uses it.
type reporter struct {
	connection *fleet.Connection
	clock      clock.Clock
	every      time.Duration
	apis       *discovery
	nodes      cache.Informer

	// have is the ClusterConnection with what the hub knows, nil if it is to be
	// read at readAt. absences is how often in a row the hub had none for us.
	have     *fleetv1alpha1.ClusterConnection
	readAt   time.Time
	absences int
	// discoverAt is when to look at the APIs again, writeAt when the hub may be
	// written to again.
	discoverAt, writeAt time.Time
	// firstBy is how long the first report may wait.
	firstBy time.Time
}

// report tells the hub what changed. It returns when to look again.
func (r *reporter) report(ctx context.Context) (time.Duration, error) {
	now := r.clock.Now()
	if wait := r.readAt.Sub(now); r.have == nil && wait > 0 {
		return wait, nil
	}
	if !now.Before(r.readAt) {
		if err := r.read(ctx, now); err != nil || r.have == nil {
			return r.readAt.Sub(now), err
		}
	}
	want := r.have.DeepCopy()
	if !now.Before(r.discoverAt) {
		r.discoverAt = now.Add(r.every)
		if again := r.apis.look(ctx); again {
			r.discoverAt = now.Add(min(r.every, discoverAgain))
		}
	}
	r.apis.tell(want)
	if err := r.tellNodes(ctx, want); err != nil {
		return 0, err
	}
	if err := r.tellFacts(ctx, want); err != nil {
		return 0, err
	}
	again := min(r.discoverAt.Sub(now), r.readAt.Sub(now))
	if wait := r.firstBy.Sub(now); wait > 0 && (want.Status.NodeSummary == nil || want.Status.KubernetesVersion == "") {
		return min(wait, again), nil // what is missing comes at once, and kicks the loop
	}
	if equality.Semantic.DeepEqual(want.Status, r.have.Status) {
		return max(again, time.Millisecond), nil
	}
	if wait := r.writeAt.Sub(now); wait > 0 {
		return min(wait, again), nil
	}
	return max(again, time.Millisecond), r.write(ctx, want, now)
}

// read reads what the hub has. One without a ClusterConnection for us is left
// alone, longer and longer.
func (r *reporter) read(ctx context.Context, now time.Time) error {
	have := &fleetv1alpha1.ClusterConnection{}
	err := r.connection.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: string(r.connection.Name)}, have)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		r.leaveAlone(now)
		return nil
	case err != nil:
		return fmt.Errorf("reading ClusterConnection %q: %w", r.connection.Name, err)
	}
	have.ManagedFields = nil
	r.have, r.readAt, r.absences = have, now.Add(readEvery), 0
	return nil
}

func (r *reporter) leaveAlone(now time.Time) {
	r.absences++
	r.have, r.readAt = nil, now.Add(backoff.After(r.absences, backoff.Between(absentMin, absentMax)))
}

// tellNodes says what nodes there are, once that is known.
func (r *reporter) tellNodes(ctx context.Context, want *fleetv1alpha1.ClusterConnection) error {
	if !r.nodes.HasSynced() {
		return nil
	}
	list := &corev1.NodeList{}
	if err := r.connection.Spoke.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("reading the nodes of cluster %q: %w", want.Name, err)
	}
	want.Status.NodeSummary = &fleetv1alpha1.NodeSummary{
		TotalNum: int32(len(list.Items)), ReadyNum: int32(nodes.Ready(list.Items)), //nolint:gosec // no cluster has so many
	}
	capacity, allocatable := nodes.Resources[string](list.Items)
	want.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{Capacity: capacity, Allocatable: allocatable}
	return nil
}

// tellFacts says who the cluster is, and its version, once they are known.
func (r *reporter) tellFacts(ctx context.Context, want *fleetv1alpha1.ClusterConnection) error {
	mc := &clusterv1.ManagedCluster{}
	if err := r.connection.Hub.GetClient().Get(ctx, client.ObjectKey{Name: want.Name}, mc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ManagedCluster %q: %w", want.Name, err)
	}
	if version := mc.Status.Version.Kubernetes; version != "" {
		want.Status.KubernetesVersion = version
	}
	// Of a member that does not answer it is known later.
	if id, err := r.connection.Identity(ctx); err == nil && id != "" {
		want.Status.ID = id
	}
	return nil
}

// write applies what this agent says, and no more.
func (r *reporter) write(ctx context.Context, want *fleetv1alpha1.ClusterConnection, now time.Time) error {
	mine := &fleetv1alpha1.ClusterConnectionStatus{
		ID: want.Status.ID, KubernetesVersion: want.Status.KubernetesVersion, APIEnablements: want.Status.APIEnablements,
		NodeSummary: want.Status.NodeSummary, ResourceSummary: want.Status.ResourceSummary,
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mine)
	if err != nil {
		return fmt.Errorf("encoding the status of ClusterConnection %q: %w", want.Name, err)
	}
	delete(fields, "conditions")
	list := conditions.Of(want.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements)
	err = conditions.ApplyStatus(ctx, r.connection.Hub.GetClient(), want, fieldOwner, list, fields)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsConflict(err): // not ours, or another one by now
		r.leaveAlone(now)
		return nil
	case err != nil:
		return err
	}
	r.have, r.writeAt = want, now.Add(writePause)
	return nil
}
