// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
	"github.com/capstan-io/capstan/internal/webhook/advice"
	"github.com/capstan-io/capstan/internal/webhook/patch"
)

// clusterMutator completes a ManagedCluster: its taints and their times, its set, the
// finalizer that has to be there before the hub makes the cluster's roles, and
// the annotation of those that wait for acceptance. The hub's controllers do without
// it; with it, they need not write.
type clusterMutator struct {
	clock      clock.PassiveClock
	access     access.Reviewer
	defaultSet bool
}

// Handle answers with the changes, as few as there are.
func (m *clusterMutator) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	cluster := &clusterv1.ManagedCluster{}
	old := (*clusterv1.ManagedCluster)(nil)
	if err := quantity.UnmarshalChecked(request.Object.Raw, cluster); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the ManagedCluster %q: %w", request.Name, err))
	}
	if request.Operation == admissionv1.Update {
		old = &clusterv1.ManagedCluster{}
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the stored ManagedCluster %q: %w", request.Name, err))
		}
	}
	var changes patch.JSONPatch
	if !hasSpec(request.Object.Raw) {
		changes.SetField(struct{}{}, "spec") // for taints
	}
	if err := m.completeCluster(old, cluster, &changes); err != nil {
		return admission.Errored(http.StatusBadRequest, err).WithWarnings(advice.WarningsFor(err)...)
	}
	annotations := maps.Clone(cluster.Annotations)
	annotations = withEntry(annotations, clusterv1.AnnotationAwaitingAcceptance, awaitingMark(old, cluster, request.UserInfo.Username))
	annotations = withEntry(annotations, clusterv1.AnnotationRegisteredByAcceptor, m.registeredByAcceptor(ctx, old, cluster, request.UserInfo))
	changes.UpdateAnnotations(cluster.Annotations, annotations)
	return changes.AdmissionResponse()
}

// hasSpec reports whether an object, which was read before, has a spec.
func hasSpec(raw []byte) bool {
	var object struct {
		Spec *struct{} `json:"spec"`
	}
	return json.Unmarshal(raw, &object) == nil && object.Spec != nil
}

// registeredByAcceptor returns the value of AnnotationRegisteredByAcceptor that a cluster has to
// have, or "" if it must not have it. Who cannot be asked about may not accept it.
func (m *clusterMutator) registeredByAcceptor(ctx context.Context, old, cluster *clusterv1.ManagedCluster, user authenticationv1.UserInfo) string {
	switch {
	case cluster.Spec.HubAcceptsClient:
		return ""
	case old != nil:
		return old.Annotations[clusterv1.AnnotationRegisteredByAcceptor]
	}
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	if may, _, err := m.access.IsAllowed(ctx, user, acceptAttributes(cluster.Name)); err != nil || !may {
		return ""
	}
	return strconv.FormatBool(true)
}

// completeCluster says what is to change of the cluster. The old one is nil when it is created.
func (m *clusterMutator) completeCluster(old, cluster *clusterv1.ManagedCluster, changes *patch.JSONPatch) error {
	var before []clusterv1.Taint
	if old != nil {
		before = old.Spec.Taints
	}
	taints := slices.Clone(cluster.Spec.Taints)
	if cluster.DeletionTimestamp.IsZero() && (old == nil || becomesAccepted(old, cluster)) {
		taints = taintSilent(old, taints)
	}
	if err := stampTaints(before, taints, metav1.NewTime(m.clock.Now().UTC())); err != nil {
		return err
	}
	writeTaints(cluster.Spec.Taints, taints, changes)
	labels := withEntry(maps.Clone(cluster.Labels), clusterv1.LabelAwaitingAcceptance, "")
	goes := !cluster.DeletionTimestamp.IsZero() // it can get no finalizer any more and needs no set
	if m.defaultSet && !goes && labels[clusterv1.LabelClusterSet] == "" {
		labels = withEntry(labels, clusterv1.LabelClusterSet, clusterv1.DefaultClusterSet)
	}
	changes.UpdateLabels(cluster.Labels, labels)
	if !goes && becomesAccepted(old, cluster) {
		changes.AddFinalizer(cluster.Finalizers, clusterv1.FinalizerAPIResourceCleanup)
	}
	return nil
}

// withEntry returns labels or annotations, which it may change, with one of them set, or
// removed if the value is empty.
func withEntry(entries map[string]string, key, value string) map[string]string {
	switch {
	case value == "":
		delete(entries, key)
	case entries == nil:
		entries = map[string]string{key: value}
	default:
		entries[key] = value
	}
	return entries
}

// writeTaints writes the times of taints that were sent, and those that were added to
// them. What this release does not know of a taint stays.
func writeTaints(sent, taints []clusterv1.Taint, changes *patch.JSONPatch) {
	if len(sent) == 0 && len(taints) > 0 { // there may be no field
		changes.SetField(taints, "spec", "taints")
		return
	}
	for i := range taints {
		switch {
		case i >= len(sent):
			changes.AppendItem(taints[i], "spec", "taints")
		case !taints[i].TimeAdded.Equal(&sent[i].TimeAdded):
			changes.SetField(taints[i].TimeAdded, "spec", "taints", strconv.Itoa(i), "timeAdded")
		}
	}
}
