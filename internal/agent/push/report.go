// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/reportlimit"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// fieldOwner owns the conditions Connected and CredentialsValid and the id in the
// status of ClusterConnections.
const fieldOwner = "push-agent"

// outcomeConditions returns what is told of a cluster.
func (o sessionOutcome) outcomeConditions() []metav1.Condition {
	connected := metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionConnected, Status: metav1.ConditionTrue,
		Reason: fleetv1alpha1.ClusterConnectionReasonConnected, Message: "the API server responds, and the push agent serves the cluster",
	}
	if !o.connected.IsNone() {
		connected.Status, connected.Reason, connected.Message = metav1.ConditionFalse, o.connected.Reason, o.connected.Message
	}
	credentials := metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionCredentialsValid, Status: metav1.ConditionTrue,
		Reason: fleetv1alpha1.ClusterConnectionReasonAuthenticated, Message: "the cluster accepts the token",
	}
	switch {
	case o.credentials.IsNone():
	case o.credentials.Reason == fleetv1alpha1.ClusterConnectionReasonRenewalFailing:
		credentials.Reason, credentials.Message = o.credentials.Reason, o.credentials.Message
	default:
		credentials.Status, credentials.Reason, credentials.Message = metav1.ConditionFalse, o.credentials.Reason, o.credentials.Message
	}
	if o.credentials.Reason == fleetv1alpha1.ClusterConnectionReasonNotChecked {
		credentials.Status = metav1.ConditionUnknown
	}
	return []metav1.Condition{connected, credentials}
}

const (
	// reportsAtOnce is how often a cluster has the hub written to at once, and reportEvery the time between two
	// writes after that: it decides how often it refuses a token, or answers too much, and each write stores the
	// whole ClusterConnection.
	reportsAtOnce = 20
	reportEvery   = 30 * time.Second
)

func newReportLimit() *reportlimit.ReportLimit {
	return reportlimit.NewReportLimit(rate.Every(reportEvery), reportsAtOnce)
}

// reportOutcome writes what is known of a cluster, if that is news. It returns how long to wait with it, as much was
// written of late. The first report about a spec neither waits nor counts: that is not the cluster's.
func (s *session) reportOutcome(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (wait time.Duration, err error) {
	o, id := s.outcome, s.id
	types := []string{fleetv1alpha1.ClusterConnectionConditionConnected, fleetv1alpha1.ClusterConnectionConditionCredentialsValid}
	before := conditions.SelectByType(connection.Status.Conditions, types...)
	after := conditions.SelectByType(connection.Status.Conditions, types...)
	for _, condition := range o.outcomeConditions() {
		conditions.SetCondition(&after, connection.Generation, condition)
	}
	if id == "" {
		id = connection.Status.ID
	}
	if equality.Semantic.DeepEqual(before, after) && id == connection.Status.ID {
		return 0, nil
	}
	if isReportOf(before, connection.Generation) {
		now := s.agent.options.Clock.Now()
		if wait := s.reports.PaidOffTime().Sub(now); wait > 0 {
			return wait, nil
		}
		s.reports.CountWrite(now, 1)
	}
	extra := map[string]any{}
	if id != "" {
		extra["id"] = id
	}
	return 0, conditions.ApplyStatus(ctx, s.agent.hub, connection, fieldOwner, after, extra)
}

// isReportOf reports whether the conditions that were written last are about a generation.
func isReportOf(before []metav1.Condition, generation int64) bool {
	return slices.ContainsFunc(before, func(c metav1.Condition) bool { return c.ObservedGeneration == generation })
}
