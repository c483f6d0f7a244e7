// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

func list(pairs ...string) corev1.ResourceList {
	quantities := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		quantities[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return quantities
}

// amounts are those of a room, which has 0 of some.
func amounts(pairs ...string) view.Amounts {
	all := view.Amounts{}
	for name, quantity := range list(pairs...) {
		all[name] = quantity.MilliValue()
	}
	return all
}

func TestReplicas(t *testing.T) {
	free := &view.FreeRoom{Free: amounts("pods", "100", "cpu", "4", "memory", "16Gi")}
	graded := &view.FreeRoom{Free: amounts("pods", "1k", "cpu", "100", "memory", "1Ti", "gpu", "5"), Grades: []view.Grade{
		{Nodes: 5, Least: amounts("cpu", "0", "memory", "0")},
		{Nodes: 3, Least: amounts("cpu", "2", "memory", "4Gi")},
		{Nodes: 1, Least: amounts("cpu", "64", "memory", "256Gi")},
	}}
	for name, test := range map[string]struct {
		room    *view.FreeRoom
		request corev1.ResourceList
		used    view.Amounts
		want    int32
	}{
		"pods only":                            {free, nil, nil, 100},
		"the scarcest resource":                {free, list("cpu", "500m", "memory", "1Gi"), nil, 8},
		"memory is scarcer":                    {free, list("cpu", "500m", "memory", "8Gi"), nil, 2},
		"pods are scarcer":                     {free, list("cpu", "1m"), nil, 100},
		"what is not reported is not there":    {free, list("gpu", "1"), nil, 0},
		"what costs nothing does not matter":   {free, list("gpu", "0", "cpu", "2"), nil, 2},
		"more is taken than there is":          {&view.FreeRoom{Free: view.Amounts{"pods": 9000, "cpu": -500}}, list("cpu", "1m"), nil, 0},
		"others were assigned some":            {free, list("cpu", "500m"), amounts("cpu", "1", "pods", "2"), 6},
		"others were assigned pods":            {free, nil, amounts("pods", "30"), 70},
		"others were assigned more":            {free, list("cpu", "500m"), amounts("cpu", "8", "pods", "2"), 0},
		"by grades: 3 nodes for 2, 1 for 64":   {graded, list("cpu", "1"), nil, 70},
		"by grades: a node takes 110":          {graded, list("cpu", "100m"), nil, 170},
		"by grades: too large for the small":   {graded, list("cpu", "4", "memory", "64Gi"), nil, 4},
		"by grades: less what others take":     {graded, list("cpu", "1"), amounts("cpu", "3500m"), 66},
		"by grades and sums: gpu is in no one": {graded, list("cpu", "1", "gpu", "2"), nil, 2},
		"by sums: no grade is about gpu":       {graded, list("gpu", "1"), nil, 5},
		"without end":                          {&view.FreeRoom{Free: view.Amounts{"pods": math.MaxInt64}}, nil, nil, math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			if got, known := RequestOf(test.request).FittingReplicas(test.room, test.used); got != test.want || !known {
				t.Errorf("room for %d (known: %t), want %d", got, known, test.want)
			}
		})
	}
	if _, known := RequestOf(nil).FittingReplicas(nil, nil); known {
		t.Error("what nobody reported is known")
	}
}

func TestOverdrawn(t *testing.T) {
	for name, test := range map[string]struct {
		free, used view.Amounts
		request    corev1.ResourceList
		want       int32
	}{
		"there is room":              {amounts("pods", "9", "cpu", "1"), nil, list("cpu", "1"), 0},
		"there is exactly none":      {amounts("pods", "9"), nil, list("cpu", "1"), 0},
		"CPUs are short":             {view.Amounts{"pods": 9000, "cpu": -2500}, nil, list("cpu", "1"), 3},
		"of what it does not need":   {view.Amounts{"pods": 9000, "cpu": -2500}, nil, list("memory", "1"), 0},
		"pods are short":             {view.Amounts{"pods": -4000, "cpu": -1}, nil, list("cpu", "1"), 4},
		"what was assigned is short": {amounts("pods", "9", "cpu", "1"), amounts("cpu", "2"), list("cpu", "500m"), 2},
	} {
		if got := RequestOf(test.request).Overdrawn(&view.FreeRoom{Free: test.free}, test.used); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if got := RequestOf(nil).Overdrawn(nil, nil); got != 0 {
		t.Errorf("of a room that nobody reported %d are too many", got)
	}
}

// TestHostileRequestsMakeNoRoom has replicas that request less than nothing, more than there are
// numbers, or more resources than anything has.
func TestHostileRequestsMakeNoRoom(t *testing.T) {
	room := &view.FreeRoom{Free: amounts("pods", "100", "cpu", "4")}
	fits := func(request corev1.ResourceList, used view.Amounts) int32 {
		replicas, _ := RequestOf(request).FittingReplicas(room, used)
		return replicas
	}
	if got := fits(list("cpu", "1"), view.AmountsOf(list("cpu", "-1000"))); got != 4 {
		t.Errorf("room for %d beside what takes less than nothing, want 4", got)
	}
	if got := fits(list("cpu", "9000P"), nil); got != 0 {
		t.Errorf("room for %d of what is more than numbers can say", got)
	}
	if got := fits(list("cpu", "1"), view.AmountsOf(list("cpu", "9000P"))); got != 0 {
		t.Errorf("room for %d beside what is more than numbers can say", got)
	}
	over := &view.FreeRoom{Free: view.Amounts{"pods": 9000, "cpu": -math.MaxInt64}}
	if got, _ := RequestOf(list("cpu", "1m")).FittingReplicas(over, view.Amounts{"cpu": math.MaxInt64}); got != 0 {
		t.Errorf("room for %d where nothing is left twice over", got)
	}
	if got := RequestOf(list("cpu", "1m")).Overdrawn(over, view.Amounts{"cpu": math.MaxInt64}); got != math.MaxInt32 {
		t.Errorf("%d are too many where nothing is left twice over", got)
	}
	many := corev1.ResourceList{}
	for i := range view.RequestsMax + 1 {
		many[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
	}
	if got := RequestOf(many); len(got) > 0 {
		t.Errorf("%d resources are compared with those of each cluster", len(got))
	}
}
