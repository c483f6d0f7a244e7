// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// forClusters has a source send its object to clusters, each of which has another number of replicas.
func (s WorkSource) forClusters(clusters int) WorkSource {
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Replicas = 1
	var names []string
	for n := range clusters {
		names = append(names, fmt.Sprintf("c%04d", n))
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: names[n], Replicas: int32(n + 1)})
	}
	s.Binding, s.Fleet = b, accepted(names...)
	return s
}

// withVariables returns a source whose object has as many environment variables.
func withVariables(t *testing.T, variables int) WorkSource {
	t.Helper()
	s, all := source(t, 1, nil), []any{}
	for range variables {
		all = append(all, map[string]any{"name": "a"})
	}
	s.Object.Object["spec"].(map[string]any)["template"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"env": all}}}}
	return s
}

func allocated() int64 {
	var is runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&is)
	return int64(is.HeapAlloc)
}

// memoryOf returns how many bytes of memory an object takes.
func memoryOf(object *unstructured.Unstructured) int64 {
	before, copied := allocated(), object.DeepCopy()
	after := allocated()
	runtime.KeepAlive(copied)
	return after - before
}

// TestVariantsOfALargeObjectAreNotAllKept makes an object of a megabyte that has 100,000 variables, for
// clusters each of which gets another number of replicas.
func TestVariantsOfALargeObjectAreNotAllKept(t *testing.T) {
	s := withVariables(t, 100_000).forClusters(24)
	size, before, clusters := memoryOf(s.Object), allocated(), 0
	for range s.renderOutcomes() {
		if clusters++; clusters == len(s.Binding.BindingSpec().Clusters) {
			if more := allocated() - before; more > 8*size {
				t.Errorf("it takes %d bytes of memory, %d times as much as the object", more, more/size)
			}
		}
	}
	if small := source(t, 1, nil).variants(); small != variantsMax {
		t.Errorf("of a small object %d variants are kept, want %d", small, variantsMax)
	}
}

// TestWhatIsHeavy tells what few bindings make at a time, and what none does in a rollout.
func TestWhatIsHeavy(t *testing.T) {
	long := source(t, 1, nil)
	unstructured.RemoveNestedField(long.Object.Object, "spec")
	long.Object.Object["data"] = map[string]any{"text": strings.Repeat("x", 1<<20)}
	overridden := source(t, 1, nil)
	policy := policyv1alpha1.OverridePolicy{}
	policy.Namespace = overridden.Object.GetNamespace()
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
		AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"a": strings.Repeat("x", 200<<10)}}},
	}}}
	var err error
	if overridden.Overrides, err = override.SelectPolicies(overridden.Object, nil, []policyv1alpha1.OverridePolicy{policy}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		source          WorkSource
		alone, together bool
		refused         bool
	}{
		"small":               {source(t, 1, nil).forClusters(1000), false, false, false},
		"long":                {long.forClusters(8), false, false, false},
		"long, many clusters": {long.forClusters(40), false, true, false},
		"long, all clusters":  {long.forClusters(520), false, true, true},
		"much is overridden":  {overridden.forClusters(200), false, true, false},
		"many values":         {withVariables(t, heavyValues).forClusters(1), true, true, false},
	} {
		if alone, together := test.source.IsHeavyToRender(false), test.source.IsHeavyToRender(true); alone != test.alone || together != test.together {
			t.Errorf("%s: it is heavy: %t, want %t; all together: %t, want %t", name, alone, test.alone, together, test.together)
		}
		if err := test.source.TooHeavy(); (err != nil) != test.refused {
			t.Errorf("%s: it is refused: %v, want %t", name, err, test.refused)
		}
	}
}
