// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// fieldOwner owns what this package writes into the status. The push agent has
// an owner of its own for what it says of the connection.
const fieldOwner = "cluster-info"

// infoReporter reports what one cluster is and has. Only its loop uses it.
type infoReporter struct {
	connection *fleet.Connection
	clock      clock.Clock
	apis       *apiDiscovery
	nodes      cache.Informer
	kick       func()

	// have is the ClusterConnection with what the hub knows, nil if it is to be
	// read at readAt. absences is how often in a row the hub had none for us.
	have     *fleetv1alpha1.ClusterConnection
	readAt   time.Time
	absences int
	// changes follows have, and pods what pods request while have asks for that; nil
	// if they do not.
	changes *connectionChanges
	pods    *podRequests
	// definitions follows which kinds are defined in the member, and pace says when to
	// look at the APIs again.
	definitions *definitionChanges
	pace        discoverySchedule
	// spacing says when the hub may be written to again, also after an earlier connection.
	spacing *reportThrottle
	// firstBy is how long the first report may wait.
	firstBy time.Time
}

// reportInfo tells the hub what changed. It returns when to look again.
func (r *infoReporter) reportInfo(ctx context.Context) (time.Duration, error) {
	now := r.clock.Now()
	if wait := r.readAt.Sub(now); r.have == nil && wait > 0 {
		return wait, nil
	}
	if !now.Before(r.readAt) || r.changes.changedSince(r.have) {
		if err := r.readConnection(ctx, now); err != nil || r.have == nil {
			return r.readAt.Sub(now), err
		}
	}
	if err := r.followSources(ctx); err != nil {
		return 0, err
	}
	want, again, err := r.desiredConnection(ctx, now)
	if err != nil {
		return 0, err
	}
	if wait := r.firstBy.Sub(now); wait > 0 && !r.isComplete(want) {
		return min(wait, again), nil // what is missing comes at once, and kicks the loop
	}
	if equality.Semantic.DeepEqual(want.Status, r.have.Status) {
		return max(again, time.Millisecond), nil
	}
	apis := !equality.Semantic.DeepEqual(want.Status.APIEnablements, r.have.Status.APIEnablements)
	if wait := r.spacing.nextWrite(apis).Sub(now); wait > 0 {
		return min(wait, again), nil
	}
	return max(again, time.Millisecond), r.applyConnectionStatus(ctx, want, now, apis)
}

// desiredConnection returns what the hub should have, and when to look again.
func (r *infoReporter) desiredConnection(ctx context.Context, now time.Time) (want *fleetv1alpha1.ClusterConnection, again time.Duration, err error) {
	want = r.have.DeepCopy()
	if r.definitions.takeChanged() {
		r.pace.scheduleAfterChange(now)
	}
	if !now.Before(r.pace.nextDiscovery()) {
		r.pace.scheduleNextDiscovery(now, r.apis.refreshDocuments(ctx))
	}
	r.apis.setEnablements(want)
	again = min(r.pace.nextDiscovery().Sub(now), r.readAt.Sub(now))
	pods, err := r.setNodeSummary(ctx, want, now)
	if err != nil {
		return nil, 0, err
	}
	if pods > 0 {
		again = min(again, pods)
	}
	return want, again, r.setClusterFacts(ctx, want)
}

// isComplete reports whether all is known that a report has.
func (r *infoReporter) isComplete(want *fleetv1alpha1.ClusterConnection) bool {
	return want.Status.NodeSummary != nil && want.Status.KubernetesVersion != "" && (r.pods == nil || r.pods.taken != nil || r.pods.isForbidden())
}

// followSources follows what the hub asks for, which kinds are defined, and the pods if it asks for
// them.
func (r *infoReporter) followSources(ctx context.Context) (err error) {
	if r.changes == nil {
		if r.changes, err = followChanges(ctx, r.connection, r.clock, r.kick); err != nil {
			return err
		}
	}
	if r.definitions == nil {
		if r.definitions, err = followDefinitions(ctx, r.connection, r.clock, r.kick); err != nil {
			return err
		}
	}
	asked := r.have.Cluster != nil || r.have.Spec.ResourceModels != nil || asksForPods(r.have)
	switch {
	case asked && r.pods == nil:
		r.pods, err = followPods(ctx, r.connection, r.clock, r.kick)
	case !asked && r.pods != nil:
		r.pods.stop()
		r.pods = nil
	}
	return err
}

// readConnection reads what the hub has. One without a ClusterConnection for us is left
// alone, longer and longer.
func (r *infoReporter) readConnection(ctx context.Context, now time.Time) error {
	have := &fleetv1alpha1.ClusterConnection{}
	err := r.connection.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: string(r.connection.Name)}, have)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		r.backOffFromHub(now)
		return nil
	case err != nil:
		return fmt.Errorf("reading ClusterConnection %q: %w", r.connection.Name, err)
	}
	have.ManagedFields = nil
	r.have, r.readAt, r.absences = have, now.Add(readEvery), 0
	if r.changes != nil && r.changes.refused.Load() {
		r.changes = nil // it may be let in by now
	}
	if r.definitions != nil && r.definitions.refused.Load() {
		r.definitions = nil
	}
	return nil
}

func (r *infoReporter) backOffFromHub(now time.Time) {
	r.absences++
	if r.changes != nil {
		r.changes.stop()
	}
	if r.pods != nil {
		r.pods.stop()
	}
	if r.definitions != nil {
		r.definitions.stop()
	}
	r.changes = nil
	r.pods = nil
	r.definitions = nil
	r.have, r.readAt = nil, now.Add(backoff.DelayAfter(r.absences, backoff.ExponentialBetween(absentMin, absentMax)))
}

// setClusterFacts says who the cluster is, and its version, once they are known.
func (r *infoReporter) setClusterFacts(ctx context.Context, want *fleetv1alpha1.ClusterConnection) error {
	mc := &clusterv1.ManagedCluster{}
	if err := r.connection.Hub.GetClient().Get(ctx, client.ObjectKey{Name: want.Name}, mc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ManagedCluster %q: %w", want.Name, err)
	}
	if version := mc.Status.Version.Kubernetes; version != "" {
		want.Status.KubernetesVersion = version
	}
	if r.connection.HubCA != nil {
		pins := certs.PublicKeyPins(r.connection.HubCA())
		want.Status.HubAuthorities = pins[:min(len(pins), fleetv1alpha1.HubAuthoritiesMax)]
	}
	// Of a member that does not answer it is known later.
	if id, err := r.connection.ReadIdentity(ctx); err == nil && id != "" {
		want.Status.ID = id
	}
	return nil
}

// applyConnectionStatus applies what this agent says, and no more; apis says that the APIs are others.
func (r *infoReporter) applyConnectionStatus(ctx context.Context, want *fleetv1alpha1.ClusterConnection, now time.Time, apis bool) error {
	mine := &fleetv1alpha1.ClusterConnectionStatus{
		ID: want.Status.ID, KubernetesVersion: want.Status.KubernetesVersion, APIEnablements: want.Status.APIEnablements,
		NodeSummary: want.Status.NodeSummary, ResourceSummary: want.Status.ResourceSummary,
		Zones: want.Status.Zones, Region: want.Status.Region, Provider: want.Status.Provider,
		HubAuthorities: want.Status.HubAuthorities,
	}
	text, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("encoding ClusterConnection %q: %w", want.Name, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mine)
	if err != nil {
		return fmt.Errorf("encoding the status of ClusterConnection %q: %w", want.Name, err)
	}
	delete(fields, "conditions")
	list := conditions.SelectByType(want.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements,
		fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
	err = conditions.ApplyStatus(ctx, r.connection.Hub.GetClient(), want, fieldOwner, list, fields)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsConflict(err): // not ours, or another one by now
		r.backOffFromHub(now)
		return nil
	case err != nil:
		return err
	}
	r.have = want
	r.spacing.countWrite(now, apis, len(text))
	return nil
}
