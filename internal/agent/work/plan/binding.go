// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// OfBinding reports whether a binding made the work.
func OfBinding(work *workv1.ManifestWork) bool {
	_, is := work.Labels[workv1alpha1.LabelPermanentID]
	return is
}

// isNamespace reports whether a manifest is that of a namespace.
func isNamespace(manifest *apply.Manifest) bool {
	return manifest.Kind.GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
}

// setBindingOptions notes what is different for the manifest of a work of a binding.
func (it *ManifestItem) setBindingOptions(raw []byte) {
	if isNamespace(&it.Manifest) { // which is shared with others in any case
		it.Adopts = true
		return
	}
	var said struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		it.Refused = fmt.Errorf("%w: %w", apply.ErrNotObject, err)
		return
	}
	it.Yields = said.Metadata.Annotations[policyv1alpha1.AnnotationConflictResolution] != policyv1alpha1.ConflictResolutionOverwrite
}

// setRetained notes which fields of the manifest are the cluster's once the object
// exists.
func (it *ManifestItem) setRetained(raw []byte, kinds interpret.Chain) {
	content, err := apply.NormalizedContent(raw)
	if err != nil {
		return // it was read before
	}
	it.Retained = nil
	for _, path := range kinds.RetainedFieldPaths(&unstructured.Unstructured{Object: content}) {
		if fields.Get(content, path...) == nil {
			continue
		}
		steps := make(ignore.Path, 0, len(path))
		for _, step := range path {
			steps = append(steps, step)
		}
		it.Retained = append(it.Retained, steps)
	}
}

// completeRules are the rules of a work of a binding, and of what expires: what ends, such
// as a Job, is not made again when it is deleted in the cluster.
func completeRules() []workv1.ConditionRule {
	return []workv1.ConditionRule{{Type: workv1.ConditionRuleTypeWellKnownConditions, Condition: workv1.ManifestConditionComplete}}
}
