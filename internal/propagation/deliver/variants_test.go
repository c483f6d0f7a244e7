// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// counting counts how often replicas are revised.
type counting struct {
	interpret.Layer
	revisions *int
}

func (c counting) Operations(kind schema.GroupVersionKind) interpret.Operations {
	operations := c.Layer.Operations(kind)
	revise := operations.Revise
	operations.Revise = func(object map[string]any, replicas int32) map[string]any {
		*c.revisions++
		return revise(object, replicas)
	}
	return operations
}

// thirty returns an object for thirty clusters, c00 to c29: every third gets three
// replicas and not two, and every fifth has an override. It counts revisions.
func thirty(t *testing.T, revisions *int) WorkSource {
	t.Helper()
	s := source(t, 70, nil)
	s.Chain = interpret.Chain{counting{native.NewKubernetesKinds(), revisions}}
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Replicas = 70
	var everywhere, some []string
	for i := range 30 {
		target := workv1alpha2.TargetCluster{Name: fmt.Sprintf("c%02d", i), Replicas: 2}
		if i%3 == 0 {
			target.Replicas = 3
		}
		if i%5 == 0 {
			some = append(some, target.Name)
		}
		b.Spec.Clusters, everywhere = append(b.Spec.Clusters, target), append(everywhere, target.Name)
	}
	s.Binding, s.Fleet = b, accepted(everywhere...)
	policy := policyv1alpha1.OverridePolicy{}
	policy.Name, policy.Namespace = "some", s.Object.GetNamespace()
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: some},
		Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
			Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"some": "yes"},
		}}},
	}}
	var err error
	if s.Overrides, err = override.SelectPolicies(s.Object, nil, []policyv1alpha1.OverridePolicy{policy}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsTheSameIsMadeOnce(t *testing.T) {
	revisions := 0
	s := thirty(t, &revisions)
	copies, problems := RenderCopies(s)
	if len(copies) != 30 || len(problems) > 0 || revisions != 4 {
		t.Errorf("of %d copies and problems %v, %d were made; want 30 of 4", len(copies), problems, revisions)
	}
	for i, target := range s.Binding.BindingSpec().Clusters {
		is, replicas := copies[target.Name], int64(target.Replicas)
		got, _, _ := unstructured.NestedInt64(is.Object.Object, "spec", "replicas")
		overridden := i%5 == 0
		if got != replicas || (is.Object.GetLabels()["some"] == "yes") != overridden || (is.Applied.Overrides != "") != overridden {
			t.Errorf("%s gets %v replicas, labels %v, overridden by %q", target.Name, got, is.Object.GetLabels(), is.Applied.Overrides)
		}
	}
}

// TestClustersShareNoObject is about what is made once: each is stamped for its cluster.
func TestClustersShareNoObject(t *testing.T) {
	s := thirty(t, new(int))
	copies, _ := RenderCopies(s)
	copies["c01"].Object.SetLabels(map[string]string{"spoiled": "yes"})
	if copies["c02"].Object.GetLabels()["spoiled"] != "" || s.Object.GetLabels()["spoiled"] != "" {
		t.Error("two clusters share an object")
	}
}

func TestARevisionIsThatOfItsRules(t *testing.T) {
	named, err := ClusterRevisions(thirty(t, new(int)))
	if err != nil || len(named) != 30 || named["c00"] == named["c01"] || named["c01"] != named["c03"] {
		t.Errorf("revisions %v, %v: want those of c01 and c03 to be the same, and that of c00 another", named, err)
	}
}
