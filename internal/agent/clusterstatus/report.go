// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/nodes"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
)

// reporter reports the status of one cluster. Only its loop uses it.
type reporter struct {
	part       *Part
	connection *fleet.Connection
	clock      clock.Clock
	server     *apiServer
	nodes      cache.Informer
	facts      []*facts // of the kinds that are asked for
	watchFacts func(*facts) error
	cluster    toolscache.ResourceEventHandlerRegistration // tells when the ManagedCluster can be read

	health  health
	version string
	// id is who the cluster is, once that is identified.
	id         string
	identified bool
	waited     bool
	// reported is what was applied to the ManagedCluster in version reportedOn,
	// so that a cache that is behind does not make a second write.
	reported   *clusterv1.ManagedClusterStatus
	reportedOn string
	// spacing says when the hub may be written to again, also after an earlier connection.
	spacing *spacing
}

// report probes when it is time to, and tells the hub what has changed. It
// returns when to probe again.
func (s *reporter) report(ctx context.Context) (time.Duration, error) {
	if err := s.look(ctx); err != nil {
		return 0, err
	}
	if !fleet.Synced(ctx, s.cluster.HasSyncedChecker()) {
		return 0, nil // the connection has ended
	}
	again := max(s.health.next.Sub(s.clock.Now()), time.Millisecond)
	mc := &clusterv1.ManagedCluster{}
	key := client.ObjectKey{Name: string(s.connection.Name)}
	if err := s.connection.Hub.GetClient().Get(ctx, key, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return again, nil // the connection is about to end
		}
		return 0, fmt.Errorf("reading ManagedCluster %q: %w", key.Name, err)
	}
	if meta.IsStatusConditionFalse(mc.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced) {
		return again, nil
	}
	want, err := s.desired(ctx, mc)
	if err != nil {
		return 0, err
	}
	if same(&mc.Status, want) || s.reported != nil && s.reportedOn == mc.ResourceVersion && same(s.reported, want) {
		return again, nil
	}
	turn := availability(&mc.Status) != availability(want)
	if wait := s.spacing.wait(s.clock.Now(), turn); wait > 0 {
		return min(wait, again), nil
	}
	return again, s.write(ctx, mc, want, turn)
}

// write applies the agent's share of the status, and counts what the hub has to store for it.
func (s *reporter) write(ctx context.Context, mc *clusterv1.ManagedCluster, want *clusterv1.ManagedClusterStatus, turn bool) error {
	whole := *mc
	whole.Status = *want
	text, err := json.Marshal(&whole)
	if err != nil {
		return fmt.Errorf("encoding ManagedCluster %q: %w", mc.Name, err)
	}
	extra, err := encode(want)
	if err != nil {
		return err
	}
	if err := conditions.ApplyStatus(ctx, s.connection.Hub.GetClient(), mc, fleetv1alpha1.FieldOwnerClusterStatus, want.Conditions, extra); err != nil {
		return err
	}
	s.reported = want
	s.reportedOn = mc.ResourceVersion
	s.spacing.wrote(s.clock.Now(), turn, len(text))
	return nil
}

// look asks the member what cannot be watched, and waits once for what can.
func (s *reporter) look(ctx context.Context) error {
	now := s.clock.Now()
	due := !now.Before(s.health.next)
	group, groupCtx := taskgroup.WithContext(ctx)
	if due {
		group.Go(func() error {
			s.health = s.health.after(now, s.server.healthy(groupCtx))
			return nil
		})
		group.Go(func() error {
			if version, err := s.server.version(groupCtx); err == nil && version != "" {
				s.version = version
			}
			return nil
		})
		group.Go(func() error { return s.lookForFacts(ctx) })
		group.Go(func() error {
			s.identify(groupCtx)
			return nil
		})
	}
	if err := group.Wait(); err != nil && s.health.healthy {
		return err
	}
	s.awaitCaches(ctx)
	return ctx.Err()
}

// identify finds out who the cluster is, once.
func (s *reporter) identify(ctx context.Context) {
	if s.identified {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if id, err := s.connection.Identity(ctx); err == nil {
		s.id = id
		s.identified = true
	}
}

// awaitCaches gives the member's caches a moment, the first time, so that the
// first report is complete. Later they make a report of their own.
func (s *reporter) awaitCaches(ctx context.Context) {
	if s.waited || !s.health.healthy {
		return
	}
	s.waited = true
	deadline := time.NewTimer(syncPatience)
	defer deadline.Stop()
	tick := time.NewTicker(syncPoll)
	defer tick.Stop()
	for !s.nodes.HasSynced() || !s.factsSynced() {
		select {
		case <-ctx.Done():
			return
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// desired returns the agent's share of the status.
func (s *reporter) desired(ctx context.Context, mc *clusterv1.ManagedCluster) (*clusterv1.ManagedClusterStatus, error) {
	want := &clusterv1.ManagedClusterStatus{Conditions: s.conditions(mc), Version: clusterv1.ManagedClusterVersion{Kubernetes: s.version}}
	if s.version == "" {
		want.Version = mc.Status.Version
	}
	spoke := s.connection.Spoke.GetClient()
	var errs []error
	if s.nodes.HasSynced() {
		list := &corev1.NodeList{}
		errs = append(errs, spoke.List(ctx, list, client.UnsafeDisableDeepCopy))
		want.Capacity, want.Allocatable = nodes.Resources[clusterv1.ResourceName](list.Items)
	} else {
		want.Capacity = mc.Status.Capacity
		want.Allocatable = mc.Status.Allocatable
	}
	var err error
	want.ClusterClaims, err = s.claims(ctx, mc.Status.ClusterClaims)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("reading nodes and claims of cluster %q: %w", mc.Name, err)
	}
	return want, nil
}

// ownedConditions are the types that no other writer sets, but for Available:
// the hub sets that to Unknown when it does not hear of the agent.
func ownedConditions() []string {
	return []string{
		clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable,
		clusterv1.ManagedClusterConditionClusterCertificateRotated,
	}
}

// conditions returns the agent's conditions.
func (s *reporter) conditions(mc *clusterv1.ManagedCluster) []metav1.Condition {
	list := conditions.Of(mc.Status.Conditions, ownedConditions()...)
	conditions.Set(&list, 0, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonJoined, Message: "the agent has joined with its own credential",
	})
	switch {
	case s.health.known && s.health.healthy:
		conditions.Set(&list, 0, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue,
			Reason: clusterv1.ManagedClusterReasonAvailable, Message: "the cluster's API server is healthy",
		})
	case s.health.known:
		conditions.Set(&list, 0, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionFalse,
			Reason: clusterv1.ManagedClusterReasonKubeAPIServerUnavailable, Message: s.health.problem,
		})
	}
	if s.part.Rotation != nil {
		if rotated := s.part.Rotation(); rotated != nil {
			conditions.Set(&list, 0, *rotated)
		}
	}
	return list
}

// availability returns what the condition Available says.
func availability(status *clusterv1.ManagedClusterStatus) metav1.ConditionStatus {
	if found := meta.FindStatusCondition(status.Conditions, clusterv1.ManagedClusterConditionAvailable); found != nil {
		return found.Status
	}
	return ""
}

// same tells whether the agent's share of both is the same.
func same(have, want *clusterv1.ManagedClusterStatus) bool {
	mine := conditions.Of(have.Conditions, ownedConditions()...)
	return equality.Semantic.DeepEqual(mine, conditions.Of(want.Conditions, ownedConditions()...)) &&
		have.Version == want.Version &&
		equality.Semantic.DeepEqual(have.Capacity, want.Capacity) &&
		equality.Semantic.DeepEqual(have.Allocatable, want.Allocatable) &&
		equality.Semantic.DeepEqual(have.ClusterClaims, want.ClusterClaims)
}

// encode returns the fields of the status besides the conditions.
func encode(status *clusterv1.ManagedClusterStatus) (map[string]any, error) {
	part := &clusterv1.ManagedClusterStatus{
		Version: status.Version, Capacity: status.Capacity, Allocatable: status.Allocatable, ClusterClaims: status.ClusterClaims,
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of a ManagedCluster: %w", err)
	}
	delete(fields, "conditions")
	return fields, nil
}
