// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

const (
	// indexOwner finds the works of a replica set in the cache.
	indexOwner = "manifestworkreplicaset"
	// keptHash is an annotation of works in the cache only: the hash of their spec,
	// which is not kept.
	keptHash = "spec-hash"
	// nameHashLength is how much of a hash is in the names of works.
	nameHashLength = 5
	// messageMax is how much of the message of a condition is kept.
	messageMax = 200
	// annotationMax is how much of an annotation is kept. Those that are read are a
	// word, or as long as a traceparent.
	annotationMax = 64
)

// SlimWork keeps of a work in a cache what the controller decides by: no manifest,
// but a hash of the spec, how long it is, and when this was written last. It is false for a work
// that is not of a replica set. A cache may pass what it got from here once more.
func SlimWork(work *workv1.ManifestWork) (*workv1.ManifestWork, bool) {
	owner, ours := work.Labels[workv1.LabelManifestWorkReplicaSet]
	if !ours {
		return nil, false
	}
	if isSlimWork(work) {
		return work, true
	}
	trimmed := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion, Generation: work.Generation,
		CreationTimestamp: work.CreationTimestamp, DeletionTimestamp: work.DeletionTimestamp,
		Labels:        map[string]string{workv1.LabelManifestWorkReplicaSet: owner, workv1.LabelPlacementName: work.Labels[workv1.LabelPlacementName]},
		Annotations:   map[string]string{keptHash: workSpecHash(&work.Spec)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: specWrittenAt(work)}},
	}}
	allowance.AnnotateSlimWork(work, trimmed)
	if health, ok := work.Annotations[workv1.AnnotationReportHealth]; ok {
		trimmed.Annotations[workv1.AnnotationReportHealth] = truncateText(health, annotationMax)
	}
	if len(work.Annotations) > 0 { // even if empty, since a patch has to know that there are annotations
		trimmed.Annotations[fleetv1alpha1.AnnotationTraceparent] = truncateText(work.Annotations[fleetv1alpha1.AnnotationTraceparent], annotationMax)
	}
	for _, name := range []string{
		workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable,
		workv1.ManifestWorkConditionProgressing, workv1.ManifestWorkConditionDegraded,
	} {
		if c := meta.FindStatusCondition(work.Status.Conditions, name); c != nil {
			kept := *c
			kept.Message = truncateText(c.Message, messageMax)
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, kept)
		}
	}
	return trimmed, true
}

// isSlimWork reports whether a work is one that SlimWork has returned, whatever an agent has
// written into it: API servers store no entry of managed fields without an operation.
func isSlimWork(work *workv1.ManifestWork) bool {
	return len(work.ManagedFields) == 1 && work.ManagedFields[0].Operation == ""
}

// truncateText returns the beginning of a text that is longer than the most that it may be. What
// it returns does not keep the rest in memory.
func truncateText(text string, most int) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), most)]), "")
}

// specWrittenAt returns when the spec was written last, by whomever.
func specWrittenAt(work *workv1.ManifestWork) *metav1.Time {
	last := work.CreationTimestamp
	for i := range work.ManagedFields {
		entry := &work.ManagedFields[i]
		if entry.Subresource == "" && entry.Time != nil && entry.FieldsV1 != nil && last.Before(entry.Time) &&
			bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:spec"`)) {
			last = *entry.Time
		}
	}
	return &last
}

// workSpecHash returns a hash of a spec as the API server has it, with its defaults.
func workSpecHash(spec *workv1.ManifestWorkSpec) string {
	content, err := json.Marshal(spec)
	if err != nil {
		return "" // only manifests that are no JSON, which nobody stores
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

// ownerLabel returns the value of the label that the works of a replica set have.
func ownerLabel(set types.NamespacedName) string { return set.Namespace + "." + set.Name }

// SetOf returns the replica set that a work says it is of, if it says so.
func SetOf(work client.Object) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(work.GetLabels()[workv1.LabelManifestWorkReplicaSet], ".")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// workName returns the name of the works of a replica set. It is the same at any
// time, so that nobody can create a second work for a cluster.
func workName(set types.NamespacedName) string {
	sum := sha256.Sum256([]byte(ownerLabel(set)))
	return set.Name + "-" + hex.EncodeToString(sum[:])[:nameHashLength]
}

// isOurs reports whether a work with our label has a name that we or OCM's
// controller give. An agent may label any work of its cluster, and thereby ask
// for its deletion or hold up ours, but cannot choose a name.
func isOurs(set types.NamespacedName, work client.Object) bool {
	return strings.HasPrefix(work.GetName(), set.Name+"-")
}

// worksByCluster returns the works of a replica set by their cluster, as the cache has
// them. The first of a cluster is the one to keep.
func (c *WorkReplicaSetController) worksByCluster(ctx context.Context, set types.NamespacedName) (map[string][]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{indexOwner: ownerLabel(set)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the ManifestWorks of ManifestWorkReplicaSet %q: %w", set, err)
	}
	name := workName(set)
	byCluster := map[string][]*workv1.ManifestWork{}
	for i := range list.Items {
		if work := &list.Items[i]; isOurs(set, work) {
			byCluster[work.Namespace] = append(byCluster[work.Namespace], work)
		}
	}
	for _, works := range byCluster {
		slices.SortFunc(works, func(a, b *workv1.ManifestWork) int {
			return cmp.Or(keepRank(a, name)-keepRank(b, name), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return byCluster, nil
}

// keepRank is lower for a work that is rather kept: one that is not being deleted,
// and that has our name.
func keepRank(work *workv1.ManifestWork, name string) int {
	switch {
	case !work.DeletionTimestamp.IsZero():
		return 2
	case work.Name != name:
		return 1
	}
	return 0
}

// newWork returns the work of a cluster. It is born with the finalizer of the
// agent, which the hub's webhook does not look at again.
func newWork(set *workv1alpha1.ManifestWorkReplicaSet, cluster, placement string) *workv1.ManifestWork {
	key := client.ObjectKeyFromObject(set)
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: workName(key), Finalizers: []string{workv1.FinalizerManifestWorkCleanup},
			Labels: map[string]string{workv1.LabelManifestWorkReplicaSet: ownerLabel(key), workv1.LabelPlacementName: placement},
		},
		Spec: *set.Spec.ManifestWorkTemplate.DeepCopy(),
	}
	if health, ok := copiedHealth(set); ok {
		work.Annotations = map[string]string{workv1.AnnotationReportHealth: health}
	}
	return work
}

// copiedHealth returns what the works of a replica set get of its annotation AnnotationReportHealth, if it has
// one: as much as is compared, as each work has it once more.
func copiedHealth(set *workv1alpha1.ManifestWorkReplicaSet) (string, bool) {
	health, ok := set.Annotations[workv1.AnnotationReportHealth]
	return truncateText(health, annotationMax), ok
}
