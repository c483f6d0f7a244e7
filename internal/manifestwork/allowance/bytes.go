// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	// AnnotationBytes has, in a cache, what WorkBytes returned for the whole work. It is never
	// written to the hub.
	AnnotationBytes = "fleet.capstan.io/bytes"
	// overheadBytes is what a work takes besides what its author decides: names, labels, who
	// wrote which field.
	overheadBytes = 2 << 10
	// freeBytes is how long the stamps on the manifests of a work may be that count for nothing: those that
	// the hub gives an object without labels have about half of it.
	freeBytes = 2 << 10
	// configsMax is how long an agent may make what a work has besides its manifests: it writes that as its types have it,
	// which may be somewhat longer than what the hub wrote.
	configsMax = 16 << 10
	// bytesMax is more than etcd takes of one object: no work counts for more.
	bytesMax = 4 << 20
)

// isOfBinding reports whether a work is one of a binding, with a namespace or without.
func isOfBinding(work metav1.Object) bool {
	annotations := work.GetAnnotations()
	return annotations[workv1alpha2.AnnotationResourceBindingNamespace] != "" || annotations[workv1alpha2.AnnotationClusterResourceBindingName] != ""
}

// AnnotateSlimWork has what a cache keeps of a work say what OwnerOf and WorkBytes say of the whole.
func AnnotateSlimWork(of, kept *workv1.ManifestWork) {
	owner := OwnerOf(of)
	if owner == (WorkOwner{}) {
		return
	}
	if kept.Annotations == nil {
		kept.Annotations = map[string]string{}
	}
	kept.Annotations[AnnotationBytes] = strconv.FormatInt(WorkBytes(of), 10)
	if isOfBinding(of) {
		kept.Annotations[workv1alpha2.AnnotationResourceBindingNamespace] = strings.Clone(owner.Namespace)
	}
	if owner.ClusterWide {
		if kept.Labels == nil {
			kept.Labels = map[string]string{}
		}
		kept.Labels[policyv1alpha1.LabelClusterPropagationPolicyID] = strings.Clone(of.Labels[policyv1alpha1.LabelClusterPropagationPolicyID])
	}
}

// WorkBytes returns how many bytes a work takes on the hub by what the user has sent, the same
// however it was written, and for what a cache keeps of it with AnnotationBytes. What its member
// reports, and writes into it, is not counted: it is not the user's. Without that, etcd has 4 KiB more of it
// at most.
func WorkBytes(work *workv1.ManifestWork) int64 {
	if len(work.Spec.Workload.Manifests) == 0 {
		if counted, err := strconv.ParseInt(work.Annotations[AnnotationBytes], 10, 64); err == nil {
			return max(overheadBytes, min(counted, bytesMax)) // an agent may write the annotation, too
		}
	}
	sum := int64(overheadBytes) + metadataBytes(work)
	stamped, stamps := isOfBinding(work), int64(0)
	for _, manifest := range work.Spec.Workload.Manifests {
		own, added := canonicalBytes(manifest.Raw, stamped)
		sum += own
		stamps += added
	}
	sum += max(0, stamps-freeBytes)
	if !stamped {
		sum += configBytes(work.Spec) // of a binding the hub writes it, and API servers add defaults
	}
	return min(sum, bytesMax)
}

// metadataBytes returns what counts of the annotations of a work: those that the hub makes of texts of users. Of
// the one that is copied from a ManifestWorkReplicaSet, as much is free as any needs.
func metadataBytes(work *workv1.ManifestWork) (sum int64) {
	for key, free := range map[string]int64{
		policyv1alpha1.AnnotationAppliedOverrides: 0, policyv1alpha1.AnnotationAppliedClusterOverrides: 0, workv1.AnnotationReportHealth: freeBytes,
	} {
		if value := work.Annotations[key]; value != "" {
			sum += max(0, encodedBytes(value)-free)
		}
	}
	return sum
}

// encodedBytes returns how long a value is in etcd, which has characters such as quotes escaped.
func encodedBytes(value any) int64 {
	text, err := json.Marshal(value)
	if err != nil {
		return bytesMax // nobody stores what has no JSON
	}
	return int64(len(text))
}

// configBytes returns how long all is that a work has besides its manifests.
func configBytes(spec workv1.ManifestWorkSpec) int64 {
	spec.Workload = workv1.ManifestsTemplate{}
	return encodedBytes(spec)
}

// SpecGrows reports whether the manifests of a work are longer than before, or what it has besides, unless that is short.
func SpecGrows(before, after *workv1.ManifestWork) bool {
	return manifestsBytes(after) > manifestsBytes(before) || configBytes(after.Spec) > max(configBytes(before.Spec), configsMax)
}

// manifestsBytes returns how long the manifests of a work are, the same however they were written.
func manifestsBytes(work *workv1.ManifestWork) (sum int64) {
	for _, manifest := range work.Spec.Workload.Manifests {
		own, _ := canonicalBytes(manifest.Raw, false)
		sum += own
	}
	return sum
}

// canonicalBytes returns the length of a manifest, the same however it was written; and that of its stamps,
// which it is without, if the hub has put them there.
func canonicalBytes(raw []byte, stamped bool) (own, stamps int64) {
	content := map[string]any{}
	if err := json.Unmarshal(raw, &content); err != nil {
		return int64(len(raw)), 0 // somebody else wrote it
	}
	if stamped {
		stamps = encodedBytes(takeStamps(content))
	}
	canonical, err := json.Marshal(content)
	if err != nil {
		return int64(len(raw)), stamps
	}
	return int64(len(canonical)), stamps
}

// takeStamps takes off an object the labels and annotations that the hub gives the objects of bindings,
// and returns them. If they counted as all else, all works would grow with a version of Capstan that has
// one more, and those of a namespace that is full could not be changed any more. Some are lists of the keys
// that the template has.
func takeStamps(object map[string]any) map[string]any {
	taken := map[string]any{}
	metadata, _ := object["metadata"].(map[string]any)
	for field, keys := range map[string][]string{
		"labels": {workv1alpha2.LabelManaged, workv1alpha2.LabelWorkID, workv1alpha2.LabelResourceBindingID, workv1alpha2.LabelClusterResourceBindingID},
		"annotations": {
			workv1alpha2.AnnotationResourceBindingNamespace, workv1alpha2.AnnotationResourceBindingName, workv1alpha2.AnnotationClusterResourceBindingName,
			workv1alpha2.AnnotationWorkNamespace, workv1alpha2.AnnotationWorkName, workv1alpha2.AnnotationTemplateUID,
			workv1alpha2.AnnotationTemplateGeneration, workv1alpha2.AnnotationManagedLabels, workv1alpha2.AnnotationManagedAnnotations,
		},
	} {
		values, _ := metadata[field].(map[string]any)
		for _, key := range keys {
			if value, has := values[key]; has {
				taken[key] = value
				delete(values, key)
			}
		}
		if len(values) == 0 {
			delete(metadata, field)
		}
	}
	return taken
}

// CanonicalManifest returns a manifest as it is encoded, the same however it was written.
func CanonicalManifest(raw []byte) ([]byte, error) {
	var content any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, err //nolint:wrapcheck // the caller knows the work
	}
	return json.Marshal(content) //nolint:wrapcheck // likewise
}
