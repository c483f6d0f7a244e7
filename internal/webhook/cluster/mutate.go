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

// mutator completes a ManagedCluster: its taints and their times, its set, the
// finalizer that has to be there before the hub makes the cluster's roles, and
// the annotation of those that wait for acceptance. The hub's controllers do without
// it; with it, they need not write.
type mutator struct {
	clock      clock.PassiveClock
	access     access.Reviewer
	defaultSet bool
}

// Handle answers with the changes, as few as there are.
func (m *mutator) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	cluster := &clusterv1.ManagedCluster{}
	old := (*clusterv1.ManagedCluster)(nil)
	if err := quantity.Unmarshal(request.Object.Raw, cluster); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the ManagedCluster %q: %w", request.Name, err))
	}
	if request.Operation == admissionv1.Update {
		old = &clusterv1.ManagedCluster{}
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the stored ManagedCluster %q: %w", request.Name, err))
		}
	}
	var changes patch.Patch
	if !hasSpec(request.Object.Raw) {
		changes.Set(struct{}{}, "spec") // for taints
	}
	if err := m.complete(old, cluster, &changes); err != nil {
		return admission.Errored(http.StatusBadRequest, err).WithWarnings(advice.Warnings(err)...)
	}
	annotations := maps.Clone(cluster.Annotations)
	annotations = with(annotations, clusterv1.AnnotationAwaitingAcceptance, awaiting(old, cluster, request.UserInfo.Username))
	annotations = with(annotations, clusterv1.AnnotationRegisteredByAcceptor, m.byAcceptor(ctx, old, cluster, request.UserInfo))
	changes.Annotations(cluster.Annotations, annotations)
	return changes.Response()
}

// hasSpec tells whether an object, which was read before, has a spec.
func hasSpec(raw []byte) bool {
	var object struct {
		Spec *struct{} `json:"spec"`
	}
	return json.Unmarshal(raw, &object) == nil && object.Spec != nil
}

// byAcceptor returns the value of AnnotationRegisteredByAcceptor that a cluster has to
// have, or "" if it must not have it. Who cannot be asked about may not accept it.
func (m *mutator) byAcceptor(ctx context.Context, old, cluster *clusterv1.ManagedCluster, user authenticationv1.UserInfo) string {
	switch {
	case cluster.Spec.HubAcceptsClient:
		return ""
	case old != nil:
		return old.Annotations[clusterv1.AnnotationRegisteredByAcceptor]
	}
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	if may, _, err := m.access.May(ctx, user, acceptance(cluster.Name)); err != nil || !may {
		return ""
	}
	return strconv.FormatBool(true)
}

// complete says what is to change of the cluster. The old one is nil when it is created.
func (m *mutator) complete(old, cluster *clusterv1.ManagedCluster, changes *patch.Patch) error {
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
	labels := with(maps.Clone(cluster.Labels), clusterv1.LabelAwaitingAcceptance, "")
	goes := !cluster.DeletionTimestamp.IsZero() // it can get no finalizer any more and needs no set
	if m.defaultSet && !goes && labels[clusterv1.LabelClusterSet] == "" {
		labels = with(labels, clusterv1.LabelClusterSet, clusterv1.DefaultClusterSet)
	}
	changes.Labels(cluster.Labels, labels)
	if !goes && becomesAccepted(old, cluster) {
		changes.Finalizer(cluster.Finalizers, clusterv1.FinalizerAPIResourceCleanup)
	}
	return nil
}

// with returns labels or annotations, which it may change, with one of them set, or
// removed if the value is empty.
func with(entries map[string]string, key, value string) map[string]string {
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
func writeTaints(sent, taints []clusterv1.Taint, changes *patch.Patch) {
	if len(sent) == 0 && len(taints) > 0 { // there may be no field
		changes.Set(taints, "spec", "taints")
		return
	}
	for i := range taints {
		switch {
		case i >= len(sent):
			changes.Append(taints[i], "spec", "taints")
		case !taints[i].TimeAdded.Equal(&sent[i].TimeAdded):
			changes.Set(taints[i].TimeAdded, "spec", "taints", strconv.Itoa(i), "timeAdded")
		}
	}
}
