// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

func part(replicas int32, pairs ...string) SetComponent {
	return SetComponent{Replicas: replicas, Request: RequestOf(list(pairs...))}
}

func TestSets(t *testing.T) {
	free := &view.FreeRoom{Free: amounts("pods", "100", "cpu", "10", "memory", "16Gi")}
	graded := &view.FreeRoom{Free: amounts("pods", "1k", "cpu", "100", "memory", "1Ti", "gpu", "5"), Grades: []view.Grade{
		{Nodes: 4, Least: amounts("cpu", "2", "memory", "4Gi")},
		{Nodes: 1, Least: amounts("cpu", "8", "memory", "4Gi")},
	}}
	for name, test := range map[string]struct {
		room *view.FreeRoom
		set  ComponentSet
		used view.Amounts
		want int32
	}{
		"all parts count":                       {free, ComponentSet{part(1, "cpu", "1"), part(2, "cpu", "2")}, nil, 2},
		"the scarcest resource":                 {free, ComponentSet{part(1, "cpu", "1"), part(1, "memory", "8Gi")}, nil, 2},
		"pods of all parts":                     {free, ComponentSet{part(20), part(13)}, nil, 3},
		"a part without replicas":               {free, ComponentSet{part(0, "gpu", "1"), part(50)}, nil, 2},
		"less than one":                         {free, ComponentSet{part(1, "cpu", "1"), part(5, "cpu", "2")}, nil, 0},
		"beside what others were assigned":      {free, ComponentSet{part(1, "cpu", "1"), part(2, "cpu", "2")}, amounts("cpu", "6", "pods", "6"), 0},
		"what is not reported is not there":     {free, ComponentSet{part(1, "gpu", "1"), part(1)}, nil, 0},
		"nothing at all":                        {free, ComponentSet{part(0)}, nil, math.MaxInt32},
		"more than numbers can say":             {free, ComponentSet{part(math.MaxInt32, "memory", "9000P")}, nil, 0},
		"by grades: each pod needs a node":      {graded, ComponentSet{part(1, "cpu", "6"), part(4, "cpu", "2")}, nil, 1},
		"by grades: the large goes first":       {graded, ComponentSet{part(4, "cpu", "2"), part(1, "cpu", "8")}, nil, 1},
		"by grades: too large for any":          {graded, ComponentSet{part(1), part(1, "cpu", "9")}, nil, 0},
		"by grades: what is left of a node":     {graded, ComponentSet{part(1, "cpu", "5"), part(3, "cpu", "1")}, nil, 1},
		"by grades: several sets":               {graded, ComponentSet{part(1, "cpu", "1"), part(2, "cpu", "500m")}, nil, 8},
		"by grades: less what others take":      {graded, ComponentSet{part(1, "cpu", "1"), part(2, "cpu", "500m")}, amounts("cpu", "3"), 6},
		"by grades and sums: gpu is in no one":  {graded, ComponentSet{part(1, "cpu", "1"), part(2, "gpu", "1")}, nil, 2},
		"by grades: memory is together with it": {graded, ComponentSet{part(1, "cpu", "1", "memory", "3Gi"), part(1, "memory", "2Gi")}, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got, known := test.set.FittingSets(test.room, test.used); got != test.want || !known {
				t.Errorf("room for %d (known: %t), want %d", got, known, test.want)
			}
		})
	}
	if _, known := (ComponentSet{part(1)}).FittingSets(nil, nil); known {
		t.Error("what nobody reported is known")
	}
}

// TestSetsFitAsReplicasDo compares by chance: a set has no more room than each of
// its parts alone, a set of one replica has exactly as much as the replica, and
// twice as many replicas have no more than half as much.
func TestSetsFitAsReplicasDo(t *testing.T) {
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 3))
		room := &view.FreeRoom{Free: view.Amounts{"pods": chance.Int64N(300_000), "cpu": chance.Int64N(90_000), "memory": chance.Int64N(90_000)}}
		for range chance.IntN(4) {
			room.Grades = append(room.Grades, view.Grade{Nodes: int32(chance.IntN(5)), Least: view.Amounts{"cpu": chance.Int64N(9000), "memory": chance.Int64N(9000)}})
		}
		var set, double ComponentSet
		for range 1 + chance.IntN(3) {
			one := SetComponent{Replicas: int32(1 + chance.IntN(4)), Request: ReplicaRequest{{"cpu", 1 + chance.Int64N(3000)}, {"memory", 1 + chance.Int64N(3000)}}}
			set = append(set, one)
			one.Replicas *= 2
			double = append(double, one)
		}
		sets, _ := set.FittingSets(room, nil)
		for _, part := range set {
			alone, _ := part.Request.FittingReplicas(room, nil)
			if sets > alone/part.Replicas {
				t.Fatalf("seed %d: room for %d sets, and for %d of %d replicas of a part", seed, sets, alone, part.Replicas)
			}
			if single, _ := (ComponentSet{{1, part.Request}}).FittingSets(room, nil); single != alone {
				t.Fatalf("seed %d: room for %d replicas, and for %d sets of one", seed, alone, single)
			}
		}
		if twice, _ := double.FittingSets(room, nil); twice > sets/2 {
			t.Fatalf("seed %d: room for %d sets, and for %d of twice as much", seed, sets, twice)
		}
	}
}

// TestManyPartsAreFewOnNodes has a set of as many parts as a binding may have, which would be put on nodes in
// all orders of size: there is no more room for it than for its parts, and it costs little.
func TestManyPartsAreFewOnNodes(t *testing.T) {
	room := &view.FreeRoom{Free: amounts("pods", "1M", "cpu", "1M"), Grades: []view.Grade{{Nodes: 1000, Least: amounts("cpu", "8")}}}
	var set ComponentSet
	for i := range 256 {
		set = append(set, part(1, "cpu", fmt.Sprintf("%dm", 1000+i)))
	}
	small := set.sortParts(room.Grades)[packedMax-1:].mergeParts()
	if small.Replicas != 256-packedMax+1 || len(small.Request) != 1 || small.Request[0].amount != 1255 {
		t.Errorf("the small ones count as %v, want 241 of the largest of these", small)
	}
	sets, known := set.FittingSets(room, nil)
	if !known || sets < 20 || sets > 8000/289 {
		t.Errorf("room for %d sets (known: %t), want about a 290th of 8,000 CPUs", sets, known)
	}
}
