// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/quantity"
)

// mutator completes a ManagedCluster: its taints and their times, its set, the
// finalizer that has to be there before the hub makes the cluster's roles, and
// the label of those that wait for acceptance. The hub's controllers do without
// it; with it, they need not write.
type mutator struct {
	clock      clock.PassiveClock
	defaultSet bool
}

// Handle answers with the changes, as few as there are.
func (m *mutator) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	cluster, old := &clusterv1.ManagedCluster{}, (*clusterv1.ManagedCluster)(nil)
	if err := quantity.Unmarshal(request.Object.Raw, cluster); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the ManagedCluster %q: %w", request.Name, err))
	}
	if request.Operation == admissionv1.Update {
		old = &clusterv1.ManagedCluster{}
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the stored ManagedCluster %q: %w", request.Name, err))
		}
	}
	if err := m.complete(old, cluster, request.UserInfo.Username); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	changed, err := merge(request.Object.Raw, cluster)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// complete changes the cluster. The old one is nil when it is created.
func (m *mutator) complete(old, cluster *clusterv1.ManagedCluster, requester string) error {
	var oldTaints []clusterv1.Taint
	if old != nil {
		oldTaints = old.Spec.Taints
	}
	if cluster.DeletionTimestamp.IsZero() && (old == nil || becomesAccepted(old, cluster)) {
		cluster.Spec.Taints = taintSilent(old, cluster.Spec.Taints)
	}
	if err := stampTaints(oldTaints, cluster.Spec.Taints, metav1.NewTime(m.clock.Now().UTC())); err != nil {
		return err
	}
	setLabel(cluster, clusterv1.LabelAwaitingAcceptance, awaiting(old, cluster, requester))
	if !cluster.DeletionTimestamp.IsZero() {
		return nil // it can get no finalizer any more and needs no set
	}
	if m.defaultSet && cluster.Labels[clusterv1.LabelClusterSet] == "" {
		setLabel(cluster, clusterv1.LabelClusterSet, clusterv1.DefaultClusterSet)
	}
	if becomesAccepted(old, cluster) && !slices.Contains(cluster.Finalizers, clusterv1.FinalizerAPIResourceCleanup) {
		cluster.Finalizers = append(cluster.Finalizers, clusterv1.FinalizerAPIResourceCleanup)
	}
	return nil
}

// setLabel sets a label, or removes it if the value is empty.
func setLabel(cluster *clusterv1.ManagedCluster, key, value string) {
	if value == "" {
		delete(cluster.Labels, key)
		return
	}
	if cluster.Labels == nil {
		cluster.Labels = map[string]string{}
	}
	cluster.Labels[key] = value
}

// merge writes what complete may have changed into the object as it was sent,
// so that fields which this release does not know stay.
func merge(raw []byte, cluster *clusterv1.ManagedCluster) ([]byte, error) {
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading the ManagedCluster %q: %w", cluster.Name, err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	if len(cluster.Labels) > 0 {
		metadata["labels"] = cluster.Labels
	} else if sent, ok := metadata["labels"].(map[string]any); ok {
		clear(sent)
	}
	if len(cluster.Finalizers) > 0 {
		metadata["finalizers"] = cluster.Finalizers
	}
	if spec, ok := object["spec"].(map[string]any); ok && len(cluster.Spec.Taints) > 0 {
		spec["taints"] = cluster.Spec.Taints
	}
	changed, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing the ManagedCluster %q: %w", cluster.Name, err)
	}
	return changed, nil
}
