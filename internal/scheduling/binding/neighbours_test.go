// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

func TestBeside(t *testing.T) {
	in := func(namespace, name, together, apart string, clusters ...string) workv1alpha2.Binding {
		b := &workv1alpha2.ResourceBinding{}
		b.Namespace, b.Name = namespace, name
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name}
		if together+apart != "" {
			b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: together, AntiAffinityGroup: apart}
		}
		for _, cluster := range clusters {
			b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
		}
		return b
	}
	others := []workv1alpha2.Binding{
		in("shop", "mine", "app=a", "tier=x", "a"), in("shop", "friend", "app=a", "", "b", "c"), in("shop", "foe", "app=b", "tier=x", "d"),
		in("shop", "stranger", "", "", "e"), in("bank", "other", "app=a", "tier=x", "f"), in("shop", "half", "", "tier=y", "g"),
	}
	for name, test := range map[string]struct {
		of   workv1alpha2.Binding
		want scheduler.Neighbours
	}{
		"both":           {in("shop", "mine", "app=a", "tier=x"), scheduler.Neighbours{Together: map[string]int{"b": 1, "c": 1}, Apart: map[string]int{"d": 1}}},
		"apart only":     {in("shop", "new", "", "tier=x"), scheduler.Neighbours{Apart: map[string]int{"a": 1, "d": 1}}},
		"none of it":     {in("shop", "new", "app=z", ""), scheduler.Neighbours{}},
		"not in a group": {in("shop", "new", "", ""), scheduler.Neighbours{}},
	} {
		if diff := cmp.Diff(test.want, NeighboursOfBinding(test.of, others), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
