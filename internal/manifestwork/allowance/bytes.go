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
// reports is not counted: it is not the user's.
func WorkBytes(work *workv1.ManifestWork) int64 {
	if len(work.Spec.Workload.Manifests) == 0 {
		if counted, err := strconv.ParseInt(work.Annotations[AnnotationBytes], 10, 64); err == nil {
			return max(overheadBytes, min(counted, bytesMax)) // an agent may write the annotation, too
		}
	}
	sum := int64(overheadBytes)
	stamped := isOfBinding(work)
	for _, manifest := range work.Spec.Workload.Manifests {
		sum += canonicalBytes(manifest.Raw, stamped)
	}
	for _, key := range []string{policyv1alpha1.AnnotationAppliedOverrides, policyv1alpha1.AnnotationAppliedClusterOverrides} {
		sum += int64(len(work.Annotations[key]))
	}
	if !stamped {
		sum += configBytes(work.Spec) // of a binding the hub writes it, and API servers add defaults
	}
	return min(sum, bytesMax)
}

// configBytes returns how long all is that a work has besides its manifests.
func configBytes(spec workv1.ManifestWorkSpec) int64 {
	spec.Workload = workv1.ManifestsTemplate{}
	text, err := json.Marshal(spec)
	if err != nil {
		return bytesMax // nobody stores what has no JSON
	}
	return int64(len(text))
}

// canonicalBytes returns the length of a manifest, the same however it was written; without stamps
// if the hub has put them there.
func canonicalBytes(raw []byte, stamped bool) int64 {
	content := map[string]any{}
	if err := json.Unmarshal(raw, &content); err != nil {
		return int64(len(raw)) // somebody else wrote it
	}
	if stamped {
		removeStamps(content)
	}
	canonical, err := json.Marshal(content)
	if err != nil {
		return int64(len(raw))
	}
	return int64(len(canonical))
}

// removeStamps takes off an object the labels and annotations that the hub gives the objects of
// bindings, whatever their templates have under these keys: they are a part of overheadBytes, and
// lists of keys that count. If they counted, all works would grow with a version of Capstan that has
// one more, and those of a namespace that is full could not be changed any more.
func removeStamps(object map[string]any) {
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
			delete(values, key)
		}
		if len(values) == 0 {
			delete(metadata, field)
		}
	}
}

// CanonicalManifest returns a manifest as it is encoded, the same however it was written.
func CanonicalManifest(raw []byte) ([]byte, error) {
	var content any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, err //nolint:wrapcheck // the caller knows the work
	}
	return json.Marshal(content) //nolint:wrapcheck // likewise
}
