// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grades

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Resources of the default models, which are those of Karmada's API.
const (
	cpu    = "cpu"
	memory = "memory"
	// gib is a GiB of memory.
	gib = 1 << 30
)

// ModelsOf returns the models of a cluster: its own or, if it has none, the default
// ones. An empty list is none.
func ModelsOf(spec *fleetv1alpha1.ClusterConnectionSpec) []fleetv1alpha1.ResourceModel {
	if spec.ResourceModels != nil {
		return *spec.ResourceModels
	}
	return DefaultModels()
}

// DefaultModels returns nine grades of CPU and memory, without a gap: from less than
// one CPU to 128 CPUs and more.
func DefaultModels() []fleetv1alpha1.ResourceModel {
	cpus := []int64{0, 1, 2, 4, 8, 16, 32, 64, 128, math.MaxInt64}
	gibs := []int64{0, 4, 16, 32, 64, 128, 256, 512, 1024}
	memories := make([]int64, 0, len(cpus))
	for _, n := range gibs {
		memories = append(memories, n*gib)
	}
	memories = append(memories, math.MaxInt64)
	models := make([]fleetv1alpha1.ResourceModel, 0, len(gibs))
	for i := range gibs {
		models = append(models, fleetv1alpha1.ResourceModel{Grade: int32(i), Ranges: []fleetv1alpha1.ResourceModelRange{
			modelRange(cpu, resource.DecimalSI, cpus[i], cpus[i+1]), modelRange(memory, resource.BinarySI, memories[i], memories[i+1]),
		}})
	}
	return models
}

func modelRange(name string, format resource.Format, least, next int64) fleetv1alpha1.ResourceModelRange {
	return fleetv1alpha1.ResourceModelRange{Name: name, Min: *resource.NewQuantity(least, format), Max: *resource.NewQuantity(next, format)}
}

// CountNodes counts the nodes of each grade, in the order of grades. It is given what
// each node has left; what a node does not have is zero. A node for which there
// is no grade, as the lowest one asks for more, is not counted; one between two
// grades, or above all, is of the grade below.
func CountNodes(models []fleetv1alpha1.ResourceModel, left []map[string]resource.Quantity) []fleetv1alpha1.AllocatableModeling {
	sorted := slices.Clone(models)
	slices.SortStableFunc(sorted, func(a, b fleetv1alpha1.ResourceModel) int { return cmp.Compare(a.Grade, b.Grade) })
	counts := make([]fleetv1alpha1.AllocatableModeling, len(sorted))
	for i := range sorted {
		counts[i].Grade = sorted[i].Grade
	}
	for _, node := range left {
		if i := highestGrade(sorted, node); i >= 0 {
			counts[i].Count++
		}
	}
	return counts
}

// highestGrade returns the place of the highest grade of which a node has enough of
// everything, -1 if there is none.
func highestGrade(sorted []fleetv1alpha1.ResourceModel, node map[string]resource.Quantity) int {
	for i := len(sorted) - 1; i >= 0; i-- {
		if hasEnough(sorted[i].Ranges, node) {
			return i
		}
	}
	return -1
}

func hasEnough(ranges []fleetv1alpha1.ResourceModelRange, node map[string]resource.Quantity) bool {
	for i := range ranges {
		if has := node[ranges[i].Name]; has.Cmp(ranges[i].Min) < 0 {
			return false
		}
	}
	return true
}
