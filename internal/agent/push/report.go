// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
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

// reportOutcome writes what is known of a cluster, if that is news.
func (a *Agent) reportOutcome(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, o sessionOutcome, id string) error {
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
		return nil
	}
	extra := map[string]any{}
	if id != "" {
		extra["id"] = id
	}
	return conditions.ApplyStatus(ctx, a.hub, connection, fieldOwner, after, extra)
}
