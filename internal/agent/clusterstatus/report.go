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

// statusReporter reports the status of one cluster. Only its loop uses it.
type statusReporter struct {
	part       *StatusPart
	connection *fleet.Connection
	clock      clock.Clock
	server     *apiServer
	nodes      cache.Informer
	facts      []*factSource // of the kinds that are asked for
	watchFacts func(*factSource) error
	cluster    toolscache.ResourceEventHandlerRegistration // tells when the ManagedCluster can be read

	health  probedHealth
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
	spacing *reportThrottle
}

// reportStatus probes when it is time to, and tells the hub what has changed. It
// returns when to probe again.
func (s *statusReporter) reportStatus(ctx context.Context) (time.Duration, error) {
	if err := s.probeMember(ctx); err != nil {
		return 0, err
	}
	if !fleet.AwaitSynced(ctx, s.cluster.HasSyncedChecker()) {
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
	want, err := s.desiredStatus(ctx, mc)
	if err != nil {
		return 0, err
	}
	if sameStatus(&mc.Status, want) || s.reported != nil && s.reportedOn == mc.ResourceVersion && sameStatus(s.reported, want) {
		return again, nil
	}
	turn := availabilityOf(&mc.Status) != availabilityOf(want)
	if wait := s.spacing.waitBeforeWrite(s.clock.Now(), turn); wait > 0 {
		return min(wait, again), nil
	}
	return again, s.applyStatus(ctx, mc, want, turn)
}

// applyStatus applies the agent's share of the status, and counts what the hub has to store for it.
func (s *statusReporter) applyStatus(ctx context.Context, mc *clusterv1.ManagedCluster, want *clusterv1.ManagedClusterStatus, turn bool) error {
	whole := *mc
	whole.Status = *want
	text, err := json.Marshal(&whole)
	if err != nil {
		return fmt.Errorf("encoding ManagedCluster %q: %w", mc.Name, err)
	}
	extra, err := encodeStatus(want)
	if err != nil {
		return err
	}
	if err := conditions.ApplyStatus(ctx, s.connection.Hub.GetClient(), mc, fleetv1alpha1.FieldOwnerClusterStatus, want.Conditions, extra); err != nil {
		return err
	}
	s.reported = want
	s.reportedOn = mc.ResourceVersion
	s.spacing.countWrite(s.clock.Now(), turn, len(text))
	return nil
}

// probeMember asks the member what cannot be watched, and waits once for what can.
func (s *statusReporter) probeMember(ctx context.Context) error {
	now := s.clock.Now()
	due := !now.Before(s.health.next)
	group, groupCtx := taskgroup.WithContext(ctx)
	if due {
		group.Go(func() error {
			s.health = s.health.afterProbe(now, s.server.checkHealth(groupCtx))
			return nil
		})
		group.Go(func() error {
			if version, err := s.server.readVersion(groupCtx); err == nil && version != "" {
				s.version = version
			}
			return nil
		})
		group.Go(func() error { return s.discoverFacts(ctx) })
		group.Go(func() error {
			s.identifyMember(groupCtx)
			return nil
		})
	}
	if err := group.Wait(); err != nil && s.health.healthy {
		return err
	}
	s.awaitCaches(ctx)
	return ctx.Err()
}

// identifyMember finds out who the cluster is, once.
func (s *statusReporter) identifyMember(ctx context.Context) {
	if s.identified {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if id, err := s.connection.ReadIdentity(ctx); err == nil {
		s.id = id
		s.identified = true
	}
}

// awaitCaches gives the member's caches a moment, the first time, so that the
// first report is complete. Later they make a report of their own.
func (s *statusReporter) awaitCaches(ctx context.Context) {
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

// desiredStatus returns the agent's share of the status.
func (s *statusReporter) desiredStatus(ctx context.Context, mc *clusterv1.ManagedCluster) (*clusterv1.ManagedClusterStatus, error) {
	want := &clusterv1.ManagedClusterStatus{Conditions: s.agentConditions(mc), Version: clusterv1.ManagedClusterVersion{Kubernetes: s.version}}
	if s.version == "" {
		want.Version = mc.Status.Version
	}
	spoke := s.connection.Spoke.GetClient()
	var errs []error
	if s.nodes.HasSynced() {
		list := &corev1.NodeList{}
		errs = append(errs, spoke.List(ctx, list, client.UnsafeDisableDeepCopy))
		want.Capacity, want.Allocatable = nodes.SumResources[clusterv1.ResourceName](list.Items)
	} else {
		want.Capacity = mc.Status.Capacity
		want.Allocatable = mc.Status.Allocatable
	}
	var err error
	want.ClusterClaims, err = s.reportedClaims(ctx, mc.Status.ClusterClaims)
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

// agentConditions returns the agent's conditions.
func (s *statusReporter) agentConditions(mc *clusterv1.ManagedCluster) []metav1.Condition {
	list := conditions.SelectByType(mc.Status.Conditions, ownedConditions()...)
	conditions.SetCondition(&list, 0, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonJoined, Message: "the agent has joined with its own credential",
	})
	switch {
	case s.health.known && s.health.healthy:
		conditions.SetCondition(&list, 0, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue,
			Reason: clusterv1.ManagedClusterReasonAvailable, Message: "the cluster's API server is healthy",
		})
	case s.health.known:
		conditions.SetCondition(&list, 0, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionFalse,
			Reason: clusterv1.ManagedClusterReasonKubeAPIServerUnavailable, Message: s.health.problem,
		})
	}
	if s.part.Rotation != nil {
		if rotated := s.part.Rotation(); rotated != nil {
			conditions.SetCondition(&list, 0, *rotated)
		}
	}
	return list
}

// availabilityOf returns what the condition Available says.
func availabilityOf(status *clusterv1.ManagedClusterStatus) metav1.ConditionStatus {
	if found := meta.FindStatusCondition(status.Conditions, clusterv1.ManagedClusterConditionAvailable); found != nil {
		return found.Status
	}
	return ""
}

// sameStatus reports whether the agent's share of both is the same.
func sameStatus(have, want *clusterv1.ManagedClusterStatus) bool {
	mine := conditions.SelectByType(have.Conditions, ownedConditions()...)
	return equality.Semantic.DeepEqual(mine, conditions.SelectByType(want.Conditions, ownedConditions()...)) &&
		have.Version == want.Version &&
		equality.Semantic.DeepEqual(have.Capacity, want.Capacity) &&
		equality.Semantic.DeepEqual(have.Allocatable, want.Allocatable) &&
		equality.Semantic.DeepEqual(have.ClusterClaims, want.ClusterClaims)
}

// encodeStatus returns the fields of the status besides the conditions.
func encodeStatus(status *clusterv1.ManagedClusterStatus) (map[string]any, error) {
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
