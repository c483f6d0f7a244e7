// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
)

// ofBinding tells whether a binding made the work.
func ofBinding(work *workv1.ManifestWork) bool {
	_, is := work.Labels[workv1alpha1.LabelPermanentID]
	return is
}

// isNamespace tells whether a manifest is that of a namespace.
func isNamespace(manifest *apply.Manifest) bool {
	return manifest.Kind.GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
}

// yields tells whether an object that exists already is left alone if the work
// of a binding has such a manifest for it. Namespaces are shared with others in
// any case.
func yields(manifest *apply.Manifest, raw []byte) bool {
	if isNamespace(manifest) {
		return false
	}
	var said struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return true // a manifest that cannot be applied takes nothing over
	}
	return said.Metadata.Annotations[policyv1alpha1.AnnotationConflictResolution] != policyv1alpha1.ConflictResolutionOverwrite
}
