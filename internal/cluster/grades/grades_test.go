// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grades

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func node(cpus, memories string) map[string]resource.Quantity {
	return map[string]resource.Quantity{"cpu": resource.MustParse(cpus), "memory": resource.MustParse(memories)}
}

// model is a grade of CPUs only.
func model(grade int32, least, next string) fleetv1alpha1.ResourceModel {
	return fleetv1alpha1.ResourceModel{Grade: grade, Ranges: []fleetv1alpha1.ResourceModelRange{
		{Name: "cpu", Min: resource.MustParse(least), Max: resource.MustParse(next)},
	}}
}

// counted returns the grades that have nodes, such as "0:1 2:3".
func counted(list []fleetv1alpha1.AllocatableModeling) string {
	text := ""
	for _, m := range list {
		if m.Count > 0 {
			text += fmt.Sprintf(" %d:%d", m.Grade, m.Count)
		}
	}
	if text == "" {
		return ""
	}
	return text[1:]
}

func TestCount(t *testing.T) {
	type nodes = []map[string]resource.Quantity
	own := []fleetv1alpha1.ResourceModel{model(7, "4", "8"), model(2, "0", "2")} // with a gap, and not sorted
	for name, test := range map[string]struct {
		models []fleetv1alpha1.ResourceModel
		left   nodes
		want   string
	}{
		"a range has its least and not its next":        {DefaultModels(), nodes{node("999m", "1Gi"), node("1", "4Gi"), node("2", "16Gi")}, "0:1 1:1 2:1"},
		"the poorest resource decides":                  {DefaultModels(), nodes{node("64", "1Gi"), node("1", "1Ti"), node("4", "63Gi")}, "0:1 1:1 3:1"},
		"the last grade has no end":                     {DefaultModels(), nodes{node("128", "1Ti"), node("10k", "1Pi")}, "8:2"},
		"a node with nothing left does not end it":      {DefaultModels(), nodes{node("0", "0"), node("8", "64Gi"), {}, node("8", "64Gi")}, "0:2 4:2"},
		"a node between two grades is of the one below": {own, nodes{node("3", "1Gi"), node("1", "1Gi"), node("4", "1Gi"), node("9", "1Gi")}, "2:2 7:2"},
		"a node below all grades is of none":            {own[:1], nodes{node("3", "1Gi")}, ""},
		"no grades, no counts":                          {nil, nodes{node("3", "1Gi")}, ""},
	} {
		if diff := cmp.Diff(test.want, counted(CountNodes(test.models, test.left))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]fleetv1alpha1.AllocatableModeling{{Grade: 2}, {Grade: 7}}, CountNodes(own, nil)); diff != "" {
		t.Errorf("without nodes (-want +got):\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	if got := ModelsOf(&fleetv1alpha1.ClusterConnectionSpec{}); len(got) != 9 {
		t.Errorf("a cluster without models has %d grades, want the nine", len(got))
	}
	if got := ModelsOf(&fleetv1alpha1.ClusterConnectionSpec{ResourceModels: &[]fleetv1alpha1.ResourceModel{}}); len(got) != 0 {
		t.Errorf("a cluster with an empty list has %d grades, want none", len(got))
	}
}

// The default grades have no gap: each begins where the one below ends.
func TestTheDefaultGradesAreContiguous(t *testing.T) {
	models := DefaultModels()
	for i, m := range models {
		for j, r := range m.Ranges {
			if i == 0 && !r.Min.IsZero() {
				t.Errorf("%s of the first grade begins at %s", r.Name, r.Min.String())
			}
			if below := models[max(0, i-1)].Ranges[j]; i > 0 && (below.Name != r.Name || below.Max.Cmp(r.Min) != 0) {
				t.Errorf("%s of grade %d begins at %s and that below ends at %s", r.Name, i, r.Min.String(), below.Max.String())
			}
		}
	}
}

// However nodes are ordered, each is counted once.
func TestEveryNodeIsCountedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		left := make([]map[string]resource.Quantity, random.IntN(50))
		for i := range left {
			left[i] = map[string]resource.Quantity{
				"cpu":    *resource.NewMilliQuantity(random.Int64N(1<<uint(random.IntN(30))), resource.DecimalSI),
				"memory": *resource.NewQuantity(random.Int64N(1<<uint(random.IntN(50))), resource.BinarySI),
			}
		}
		got, sum := CountNodes(DefaultModels(), left), 0
		for _, m := range got {
			sum += int(m.Count)
		}
		if sum != len(left) {
			t.Fatalf("%d of %d nodes are counted: %v", sum, len(left), got)
		}
		random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		if diff := cmp.Diff(got, CountNodes(DefaultModels(), left)); diff != "" {
			t.Fatalf("in another order (-before +after):\n%s", diff)
		}
	}
}
