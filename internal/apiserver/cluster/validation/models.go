// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// modelsMax and rangesMax are how many of them a ClusterConnection takes.
const (
	modelsMax = 64
	rangesMax = 16
)

// ValidateResourceModels returns what is wrong with the grades of nodes: each resource's
// ranges have to follow one another without a gap, from 0 to the largest number.
func ValidateResourceModels(models []v1alpha1.ResourceModel, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(models) > modelsMax {
		return append(all, field.TooMany(path, len(models), modelsMax))
	}
	seen := map[uint]bool{}
	for i, model := range models {
		at := path.Index(i)
		if model.Grade > math.MaxInt32 {
			all = append(all, field.Invalid(at.Child("grade"), model.Grade, "is too large"))
		}
		if seen[model.Grade] {
			all = append(all, field.Duplicate(at.Child("grade"), model.Grade))
		}
		seen[model.Grade] = true
		if i > 0 && model.Grade < models[i-1].Grade {
			all = append(all, field.Invalid(at.Child("grade"), model.Grade, "grades have to be sorted"))
		}
		all = append(all, validateRanges(models, i, at.Child("ranges"))...)
	}
	return all
}

// validateRanges returns what is wrong with the ranges of one grade, by itself and after
// the grade before.
func validateRanges(models []v1alpha1.ResourceModel, i int, path *field.Path) field.ErrorList {
	var all field.ErrorList
	switch count := len(models[i].Ranges); {
	case count == 0:
		return append(all, field.Required(path, "a grade has a range of each resource"))
	case count > rangesMax:
		return append(all, field.TooMany(path, count, rangesMax))
	case count != len(models[0].Ranges):
		all = append(all, field.Invalid(path, count, "each grade has to have the same resources"))
	}
	seen := map[corev1.ResourceName]bool{}
	for j, r := range models[i].Ranges {
		at := path.Index(j)
		switch {
		case r.Name == "":
			all = append(all, field.Required(at.Child("name"), "the resource, such as cpu"))
		case seen[r.Name]:
			all = append(all, field.Duplicate(at.Child("name"), r.Name))
		}
		seen[r.Name] = true
		if r.Min.Cmp(r.Max) >= 0 {
			all = append(all, field.Invalid(at.Child("max"), r.Max.String(), "has to be more than min"))
		}
		all = append(all, validateRangeStart(models, i, r, at)...)
		if i == len(models)-1 && r.Max.Cmp(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) != 0 {
			all = append(all, field.Invalid(at.Child("max"), r.Max.String(), "the last grade has to end at 9223372036854775807"))
		}
	}
	return all
}

// validateRangeStart returns what is wrong with where a range begins.
func validateRangeStart(models []v1alpha1.ResourceModel, i int, r v1alpha1.ResourceModelRange, path *field.Path) field.ErrorList {
	if i == 0 {
		if !r.Min.IsZero() {
			return field.ErrorList{field.Invalid(path.Child("min"), r.Min.String(), "the first grade has to begin at 0")}
		}
		return nil
	}
	for _, before := range models[i-1].Ranges {
		if before.Name != r.Name {
			continue
		}
		if before.Max.Cmp(r.Min) != 0 {
			return field.ErrorList{field.Invalid(path.Child("min"), r.Min.String(), "has to be the max of the grade before, which is "+before.Max.String())}
		}
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("name"), r.Name, "each grade has to have the same resources")}
}
