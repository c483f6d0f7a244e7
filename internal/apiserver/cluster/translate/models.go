// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/grades"
)

// DefaultModels returns the resource models of a Cluster that has none of its own.
func DefaultModels() []v1alpha1.ResourceModel { return resourceModels(grades.DefaultModels()) }

func resourceModels(from []fleetv1alpha1.ResourceModel) []v1alpha1.ResourceModel {
	var models []v1alpha1.ResourceModel
	for _, m := range from {
		model := v1alpha1.ResourceModel{Grade: uint(max(m.Grade, 0))}
		for _, r := range m.Ranges {
			model.Ranges = append(model.Ranges, v1alpha1.ResourceModelRange{Name: corev1.ResourceName(r.Name), Min: r.Min.DeepCopy(), Max: r.Max.DeepCopy()})
		}
		models = append(models, model)
	}
	return models
}

// connectionModels is the reverse: the defaults are not stored, so that they stay
// the defaults, and no models are an empty list.
func connectionModels(from []v1alpha1.ResourceModel) *[]fleetv1alpha1.ResourceModel {
	if equality.Semantic.DeepEqual(from, DefaultModels()) {
		return nil
	}
	models := []fleetv1alpha1.ResourceModel{}
	for _, m := range from {
		model := fleetv1alpha1.ResourceModel{Grade: int32(min(m.Grade, math.MaxInt32))}
		for _, r := range m.Ranges {
			model.Ranges = append(model.Ranges, fleetv1alpha1.ResourceModelRange{Name: string(r.Name), Min: r.Min.DeepCopy(), Max: r.Max.DeepCopy()})
		}
		models = append(models, model)
	}
	return &models
}
