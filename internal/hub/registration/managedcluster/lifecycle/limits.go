// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
)

// limitAgent notes on the ManagedCluster what its agent may change of it, and which
// claims count whatever the agent reports: the admission policy for agents, and what
// chooses clusters, look there.
func (c *ClusterLifecycleController) limitAgent(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	connection, err := c.writer.getConnection(ctx, mc.Name)
	if err != nil {
		return err
	}
	if connection == nil {
		connection = &fleetv1alpha1.ClusterConnection{}
	}
	before := mc.DeepCopy()
	if err := noteLimits(mc, connection.Spec, c.AgentLabels); err != nil {
		return fmt.Errorf("limiting the agent of ManagedCluster %q: %w", mc.Name, err)
	}
	if maps.Equal(before.Annotations, mc.Annotations) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return wrapObjectError(c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)), "noting the limits of the agent of", "ManagedCluster", mc.Name)
}

// hasLimits reports whether a ClusterConnection says something of its own.
func hasLimits(of fleetv1alpha1.ClusterConnectionSpec) bool {
	return of.AgentLabels != nil || len(of.PinnedClaims) > 0
}

// noteLimits writes the annotations. What holds for all clusters is for those whose
// ClusterConnection says nothing.
func noteLimits(mc *clusterv1.ManagedCluster, of fleetv1alpha1.ClusterConnectionSpec, byDefault agentlabels.AllowedKeys) error {
	allowed := byDefault
	if of.AgentLabels != nil {
		allowed = *of.AgentLabels
	}
	allowed.AnnotateCluster(mc)
	if len(of.PinnedClaims) == 0 {
		delete(mc.Annotations, fleetv1alpha1.AnnotationPinnedClaims)
		return nil
	}
	pinned := map[string]string{}
	for _, claim := range of.PinnedClaims {
		pinned[claim.Name] = claim.Value
	}
	text, err := json.Marshal(pinned)
	if err != nil {
		return fmt.Errorf("writing spec.pinnedClaims as JSON: %w", err)
	}
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationPinnedClaims, string(text))
	return nil
}

// sameLimits reports whether the annotations about the agent are the same.
func sameLimits(before, after *clusterv1.ManagedCluster) bool {
	for _, key := range []string{fleetv1alpha1.AnnotationAgentLabels, fleetv1alpha1.AnnotationPinnedClaims} {
		was, had := before.Annotations[key]
		is, has := after.Annotations[key]
		if was != is || had != has {
			return false
		}
	}
	return true
}
