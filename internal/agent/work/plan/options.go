// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// WorkOptions are how a work is treated, as far as that is not in its spec. The hub sets them
// by labels and annotations of the work, which ReadWorkOptions alone reads.
type WorkOptions struct {
	// Health says that the health of all objects is reported.
	Health bool
	// State says that the status of each object is reported as it is, with what it means,
	// whenever it changes, unless feedback rules ask for it.
	State bool
	// Completes says that objects that have done what they are for are not applied any more,
	// though no rule asks whether they have.
	Completes bool
	// Yields says that objects which are there and are not the work's are left alone, unless the
	// manifest says to overwrite them, and that namespaces are shared with whoever made them.
	Yields bool
	// Retains says that fields of the manifests which the cluster is known to set are the
	// cluster's once the object exists.
	Retains bool
	// Interpreted says that it counts what users of the hub say of the objects.
	Interpreted bool
	// NamespacesFollow says that the namespaces of the objects come with works of their own.
	NamespacesFollow bool
	// SuspendedReports says that what becomes of the objects is reported while the work is
	// suspended, too.
	SuspendedReports bool
	// ProblemAlone says that of a work with one manifest condition Applied has the problem of
	// that, and nothing else: its clients do not read the conditions of manifests.
	ProblemAlone bool
}

// ReadWorkOptions returns the options of a work, on top of those that the agent has for all. A work
// that a binding made has the label of its permanent ID, which stands for all that Karmada's
// users expect: the hubs of all versions set it.
func ReadWorkOptions(work *workv1.ManifestWork, all HealthOptions) WorkOptions {
	var o WorkOptions
	if _, bound := work.Labels[workv1alpha1.LabelPermanentID]; bound {
		o = WorkOptions{
			State: true, Completes: true, Yields: true, Retains: true, Interpreted: true,
			NamespacesFollow: true, SuspendedReports: true, ProblemAlone: true,
		}
	}
	o.Health = all.Health || work.Annotations[workv1.AnnotationReportHealth] == "true"
	return o
}

// IsInterpreted reports whether it counts for a work what users of the hub say of its objects.
func IsInterpreted(work *workv1.ManifestWork) bool {
	return ReadWorkOptions(work, HealthOptions{}).Interpreted
}

// IsSuspended reports whether somebody wants nothing of the work to be written to the
// member. It is no option of a plan: what is known of the objects outlasts it.
func IsSuspended(work *workv1.ManifestWork) bool {
	return work.Annotations[workv1.AnnotationSuspendDispatching] == "true"
}

// WorkOwner returns who has a work, and may have others in all clusters: the users of the namespace of its binding or replica
// set, or administrators for them; "" for all other works.
func WorkOwner(work *workv1.ManifestWork) string {
	owner := allowance.OwnerOf(work)
	if owner.Namespace == "" {
		return ""
	}
	return fmt.Sprintf("namespace %s %t", owner.Namespace, owner.ClusterWide)
}

// ContentOwner returns whose share it is of the room for what is decoded of works: that of the WorkOwner, or else of the cluster.
func ContentOwner(work *workv1.ManifestWork) string {
	return cmp.Or(WorkOwner(work), "cluster "+work.Namespace)
}

// PermanentID returns what objects are labelled with that the work brought, "" if they are not.
func PermanentID(work *workv1.ManifestWork) string { return work.Labels[workv1alpha1.LabelPermanentID] }

// isNamespace reports whether a manifest is that of a namespace.
func isNamespace(manifest *apply.Manifest) bool {
	return manifest.Kind.GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
}

// setYielding notes what is left alone of what is there and is not the work's.
func (d *DesiredObject) setYielding(raw []byte) {
	if isNamespace(&d.Manifest) { // which is shared with others in any case
		d.Adopts = true
		return
	}
	var said struct {
		Metadata struct {
			Annotations struct { // of which there may be a hundred thousand
				Resolution string `json:"work.karmada.io/conflict-resolution"`
			} `json:"annotations"`
		} `json:"metadata"`
	}
	if err := utiljson.Unmarshal(raw, &said); err != nil {
		d.refuse(fmt.Errorf("%w: %w", apply.ErrNotObject, err))
		return
	}
	d.Yields = said.Metadata.Annotations.Resolution != policyv1alpha1.ConflictResolutionOverwrite
}

// setRetained notes which fields of the manifest are the cluster's once the object
// exists.
func (d *DesiredObject) setRetained(ctx context.Context, raw []byte, kinds interpret.Chain) error {
	content, err := apply.NormalizedContent(ctx, raw)
	switch {
	case errors.Is(err, apply.ErrNotObject):
		return nil // it was read before
	case err != nil:
		return err
	}
	d.Retained = nil
	for _, path := range kinds.RetainedFieldPaths(&unstructured.Unstructured{Object: content}) {
		if fields.Get(content, path...) == nil {
			continue
		}
		steps := make(ignore.Path, 0, len(path))
		for _, step := range path {
			steps = append(steps, step)
		}
		d.Retained = append(d.Retained, steps)
	}
	return nil
}

// completeRules are the rules of what completes without being asked, and of what expires: what ends, such
// as a Job, is not made again when it is deleted in the cluster.
func completeRules() []workv1.ConditionRule {
	return []workv1.ConditionRule{{Type: workv1.ConditionRuleTypeWellKnownConditions, Condition: workv1.ManifestConditionComplete}}
}
