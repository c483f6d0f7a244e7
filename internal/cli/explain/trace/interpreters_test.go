// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
)

// customized has scripts say what the object means.
func (f *ObjectFacts) customized(rules configv1alpha1.CustomizationRules) *ObjectFacts {
	f.Known = interpreters.NewKnownInterpreters([]configv1alpha1.ResourceInterpreterCustomization{{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "apps/v1", Kind: "Deployment"}, Customizations: rules,
		},
	}}, time.Now, true)
	return f
}

// TestWhatFailsIsTold has each script of the hub fail.
func TestWhatFailsIsTold(t *testing.T) {
	fails := func(function string) *configv1alpha1.LuaRule {
		return &configv1alpha1.LuaRule{LuaScript: "function " + function + "(a, b) error('no') end"}
	}
	binding := func(placement policyv1alpha1.ReplicaSchedulingType) *BindingObject {
		return &BindingObject{
			Spec: workv1alpha2.ResourceBindingSpec{
				PropagateDeps: true,
				Placement:     &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: placement}},
				Clusters:      []workv1alpha2.TargetCluster{{Name: "paris", Replicas: 1}, {Name: "rome", Replicas: 1}},
			},
			Status: workv1alpha2.ResourceBindingStatus{AggregatedStatus: []workv1alpha2.AggregatedStatusItem{{
				ClusterName: "paris", Status: &runtime.RawExtension{Raw: []byte(`{"replicas":1}`)}, Applied: true,
			}}},
		}
	}
	const remedy = " \"capstan interpret --operation "
	for name, test := range map[string]struct {
		rules   configv1alpha1.CustomizationRules
		binding *BindingObject
		want    []string
	}{
		"nothing fails": {binding: binding(policyv1alpha1.ReplicaSchedulingTypeDivided)},
		"its replicas": {
			rules: configv1alpha1.CustomizationRules{ReplicaResource: fails("GetReplicas")},
			want: []string{`InterpretReplica fails, so it gets no binding: ResourceInterpreterCustomization "mine", replicaResource: line 1: no.` + remedy +
				`InterpretReplica" tries it, and "capstan interpret mine --edit" fixes the script.`},
		},
		"what concerns its clusters": {
			rules: configv1alpha1.CustomizationRules{
				ReplicaRevision: fails("ReviseReplica"), DependencyInterpretation: fails("GetDependencies"), StatusAggregation: fails("AggregateStatus"),
				HealthInterpretation: fails("InterpretHealth"), // which the agents find out
			},
			binding: binding(policyv1alpha1.ReplicaSchedulingTypeDivided),
			want: []string{
				`InterpretDependency fails, so what is sent along with it stays as it is: ResourceInterpreterCustomization "mine", dependencyInterpretation: line 1: no.` + remedy +
					`InterpretDependency" tries it, and "capstan interpret mine --edit" fixes the script.`,
				`ReviseReplica fails, so the clusters keep what they have: ResourceInterpreterCustomization "mine", replicaRevision: line 1: no.` + remedy +
					`ReviseReplica" tries it, and "capstan interpret mine --edit" fixes the script.`,
				`AggregateStatus fails, so its status on the hub stays as it is: ResourceInterpreterCustomization "mine", statusAggregation: line 1: no.` + remedy +
					`AggregateStatus" tries it, and "capstan interpret mine --edit" fixes the script.`,
			},
		},
		"replicas that are not divided": {
			rules:   configv1alpha1.CustomizationRules{ReplicaRevision: fails("ReviseReplica")},
			binding: binding(policyv1alpha1.ReplicaSchedulingTypeDuplicated),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := web("").customized(test.rules)
			f.Binding = test.binding
			if diff := cmp.Diff(test.want, f.failedOperations()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAnAgentCannotInterpretIsTold(t *testing.T) {
	work := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "w"}}
	work.Status.Conditions = []metav1.Condition{{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue}}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{Conditions: []metav1.Condition{{
		Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionFalse, Reason: workv1.ManifestReasonInterpretationFailed, Message: "line 2: no",
	}}}}
	c := ClusterTrace{Name: "paris"}
	c.addWork(&work)
	if c.Applied != appliedYes || c.Reason != "line 2: no" {
		t.Errorf("it tells %+v", c)
	}
}

// TestWhatFailsForgesNoLine has a script fail with what a member reports.
func TestWhatFailsForgesNoLine(t *testing.T) {
	trace := &Trace{Notes: []string{"health fails: it said\nThe object is in all clusters."}}
	if text := trace.FormatText(); !strings.Contains(text, "\nhealth fails: it said The object is in all clusters.\n") {
		t.Errorf("got\n%s", text)
	}
}
