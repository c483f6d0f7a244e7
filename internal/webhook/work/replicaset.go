// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

const (
	replicaSetsResource = "manifestworkreplicasets"
	templatePath        = "spec.manifestWorkTemplate"
)

// replicaSetValidator refuses ManifestWorkReplicaSets whose works would break a
// rule: the works themselves are not asked about again.
type replicaSetValidator struct {
	specRules
	// works says that the hub creates the works.
	works bool
}

// ValidateCreate implements admission.Validator.
func (v *replicaSetValidator) ValidateCreate(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (admission.Warnings, error) {
	return v.validateReplicaSet(ctx, set)
}

// ValidateUpdate implements admission.Validator. Who has the template go to
// clusters of other Placements executes it there, as who changes the template.
func (v *replicaSetValidator) ValidateUpdate(ctx context.Context, old, set *workv1alpha1.ManifestWorkReplicaSet) (admission.Warnings, error) {
	same := old.DeepCopy()
	same.Spec.ManifestWorkTemplate = set.Spec.ManifestWorkTemplate
	if equality.Semantic.DeepEqual(old.Spec, set.Spec) ||
		equality.Semantic.DeepEqual(same.Spec, set.Spec) && orphansOnly(&old.Spec.ManifestWorkTemplate, &set.Spec.ManifestWorkTemplate) {
		return nil, nil
	}
	return v.validateReplicaSet(ctx, set)
}

// ValidateDelete implements admission.Validator.
func (v *replicaSetValidator) ValidateDelete(context.Context, *workv1alpha1.ManifestWorkReplicaSet) (admission.Warnings, error) {
	return nil, nil
}

func (v *replicaSetValidator) validateReplicaSet(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (admission.Warnings, error) {
	template := &set.Spec.ManifestWorkTemplate
	warnings, user, err := v.checkSpec(templatePath, template)
	if err != nil {
		return advice.WarningsFor(err), apierrors.NewBadRequest(err.Error())
	}
	warnings = append(v.replicaSetWarnings(set), warnings...)
	if user == "" {
		return warnings, nil
	}
	// The works may be for any cluster.
	return warnings, v.checkExecutor(ctx, user, executionSubject{resource: replicaSetsResource, name: set.Name, executor: template.Executor})
}

// replicaSetWarnings returns what will be reported in conditions, too.
func (v *replicaSetValidator) replicaSetWarnings(set *workv1alpha1.ManifestWorkReplicaSet) admission.Warnings {
	var warnings admission.Warnings
	if !v.works {
		warnings = append(warnings, "a ManifestWorkReplicaSet has no effect on this hub. "+
			"An administrator can turn on the feature gate ManifestWorkReplicaSet in spec.workConfiguration of the ClusterManager")
	}
	if label := set.Namespace + "." + set.Name; len(label) > validation.LabelValueMaxLength {
		warnings = append(warnings, fmt.Sprintf("no ManifestWork will be created: namespace and name together have %d characters, at most %d are allowed",
			len(label)-1, validation.LabelValueMaxLength-1))
	}
	problems := rollout.CheckReferences(set.Spec.PlacementRefs)
	for i, ref := range set.Spec.PlacementRefs[:min(len(set.Spec.PlacementRefs), rollout.PlacementsMax)] {
		_, wrong := rollout.ParseStrategy(ref.RolloutStrategy, field.NewPath("spec", "placementRefs").Index(i).Child("rolloutStrategy"))
		problems = append(problems, wrong...)
	}
	for _, problem := range problems {
		warnings = append(warnings, "no ManifestWork will be changed: "+problem.Error())
	}
	if option := set.Spec.ManifestWorkTemplate.DeleteOption; option != nil && option.TTLSecondsAfterFinished != nil {
		warnings = append(warnings, templatePath+".deleteOption.ttlSecondsAfterFinished has no effect: a ManifestWork that was deleted would be created again")
	}
	return warnings
}
