// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// sentBy reports whether the work brought the object for a binding, as its labels
// say. A work that is nil has vanished, and could not have said more.
func sentBy(work *workv1.ManifestWork, seen *metav1.PartialObjectMetadata) bool {
	id := seen.Labels[workv1alpha2.LabelWorkID]
	return id != "" && seen.Labels[workv1alpha2.LabelManaged] == "true" && (work == nil || plan.PermanentID(work) == id)
}

// nullMarks returns those labels or annotations, each as null, that an object has
// because it was sent to the cluster. Others that begin with karmada.io/ are the user's.
func nullMarks(texts map[string]string) map[string]any {
	marks := map[string]any{}
	for key := range texts {
		domain, _, prefixed := strings.Cut(key, "/")
		if key == workv1alpha2.LabelManaged {
			marks[key] = nil
		}
		if !prefixed {
			continue
		}
		switch domain {
		case "work.karmada.io", "resourcetemplate.karmada.io", "binding.karmada.io", "policy.karmada.io",
			"resourcebinding.karmada.io", "clusterresourcebinding.karmada.io",
			"propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io":
			marks[key] = nil
		}
	}
	return marks
}

// isNamespace reports whether the object is a namespace.
func isNamespace(object apply.ObjectRef) bool {
	return object.Group == corev1.GroupName && object.Resource == "namespaces"
}

// shouldDelete reports whether an object is to be deleted: a namespace that was there
// before us only loses what we added.
func shouldDelete(end plan.Fate, object apply.ObjectRef, seen *metav1.PartialObjectMetadata) bool {
	return end == plan.FateDelete && (!isNamespace(object) || seen.Annotations[workv1.AnnotationAdopted] != "true")
}
