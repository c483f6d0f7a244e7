// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// BenchmarkSchedule chooses 100 clusters by three scorers, spread over ten zones.
func BenchmarkSchedule(b *testing.B) {
	for _, size := range []int{100, 1000, 10000} {
		clusters := make([]view.Cluster, size)
		for i := range clusters {
			clusters[i] = view.Cluster{
				Name: fmt.Sprintf("cluster-%05d", i), Decisions: i % 7,
				Labels:      map[string]string{"env": []string{"prod", "test"}[i%2], "zone": fmt.Sprintf("zone-%d", i%10)},
				Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(i%64), resource.DecimalSI)},
			}
		}
		fleet := view.NewFleet(clusters...)
		request := compiled(b, RequestSpec{
			Predicates: []Predicate{{Labels: selects("env", "prod")}},
			Scorers: []WeightedScorer{
				{Scorer: Balance{}, Weight: 1},
				{Scorer: Steady{}, Weight: 1},
				{Scorer: MostAllocatable{As: "ResourceAllocatableCPU", Resource: corev1.ResourceCPU}, Weight: 1},
			},
			Spread: []SpreadConstraint{{Key: "zone", MaxSkew: 1, Hard: true}},
			Count:  new(100),
		})
		previous := ScheduleClusters(fleet, request, nil, noon).Targets
		b.Run(fmt.Sprintf("%d clusters", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ScheduleClusters(fleet, request, previous, noon)
			}
		})
	}
}
