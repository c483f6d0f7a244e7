// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/demand"
)

// asking changes what the first policy of the namespace asks for.
func (f *ObjectFacts) asking(change func(*policyv1alpha1.PropagationSpec)) *ObjectFacts {
	f.Policies[0].Labels = map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"}
	change(&f.Policies[0].Spec)
	return f
}

func waitsForOverride(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = []string{"images"} }

func lazy(s *policyv1alpha1.PropagationSpec) { s.ActivationPreference = policyv1alpha1.LazyActivation }

func ranked(s *policyv1alpha1.PropagationSpec) {
	s.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "high"}
}

// bound has the policy claim the object, and gives it a binding.
func (f *ObjectFacts) bound() *ObjectFacts {
	id := map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"}
	f.Template.SetLabels(map[string]string{"app": "web", policyv1alpha1.LabelPropagationPolicyID: "id"})
	f.Binding = &BindingObject{Kind: kindBinding, Spec: workv1alpha2.ResourceBindingSpec{SchedulePriority: &workv1alpha2.SchedulePriority{Priority: 7}}}
	f.Binding.Labels = id
	f.Binding.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionScheduled}}
	return f
}

// waiting has the policy claim the object, and wait for a change of it.
func (f *ObjectFacts) waiting() *ObjectFacts {
	f.Template.SetLabels(map[string]string{"app": "web", policyv1alpha1.LabelPropagationPolicyID: "id"})
	f.Template.SetAnnotations(map[string]string{demand.AnnotationTemplate: demand.ObjectFingerprint(f.Template)})
	return f
}

func TestWhatKeepsAPolicyFromBeingApplied(t *testing.T) {
	system := web("").policy("own", 0, deployment(""))
	system.Ref.Namespace = "kube-system"
	shared := web("").policy("own", 0, deployment(""))
	shared.Unserved = true
	absent := func(f *ObjectFacts, what string) *ObjectFacts {
		f.Absent = []string{what}
		return f
	}
	for name, test := range map[string]struct {
		facts *ObjectFacts
		want  string
	}{
		"a reserved namespace": {system, "Nothing of namespace kube-system is sent to clusters: it is for Kubernetes."},
		"an override": {
			absent(web("").policy("own", 0, deployment("")).asking(waitsForOverride), "OverridePolicy shop/images"),
			`PropagationPolicy shop/own waits for override policy "images" (spec.dependentOverrides), which does not exist: create it.`,
		},
		"an override that is there": {web("shop/own").policy("own", 0, deployment("")).asking(waitsForOverride), "The hub's propagation controller creates the binding in a moment"},
		"too many overrides": {
			web("").policy("own", 0, deployment("")).asking(func(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = make([]string, 257) }),
			"PropagationPolicy shop/own is not applied: spec.dependentOverrides: Too many: 257: must have at most 256 items",
		},
		"a PriorityClass": {
			absent(web("").policy("own", 0, deployment("")).asking(ranked), "PriorityClass high"),
			`PropagationPolicy shop/own names PriorityClass "high" (spec.schedulePriority), which does not exist: create it, or name another one.`,
		},
		"a shared hub":    {shared, "PropagationPolicy shop/own selects it, but this hub is an ordinary cluster"},
		"lazy activation": {web("shop/own").policy("own", 0, deployment("")).asking(lazy).waiting(), "PropagationPolicy shop/own is applied lazily"},
	} {
		t.Run(name, func(t *testing.T) {
			got := BuildTrace(test.facts, noon).Notes
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	text := BuildTrace(web("shop/own").policy("own", 0, deployment("")).asking(ranked).bound(), noon).FormatText()
	if want := "Its priority is 7: it gets its clusters before those of a lower one"; !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant %q", text, want)
	}
}

// An object without its namespace is not the one to look at.
func TestTheNamespaceWaits(t *testing.T) {
	f := web("").bound()
	f.clustersHidden = true
	f.Binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	unseen := func(w *workv1.ManifestWork) { w.Status.Conditions = nil }
	failing := func(w *workv1.ManifestWork) {
		w.Status.Conditions[0].Status, w.Status.Conditions[0].Message = metav1.ConditionFalse, "failed"
	}
	f.Works = []workv1.ManifestWork{work("a", unseen), work("b", failing), work("c", failing), work("d", failing)}
	f.NamespaceWorks = []workv1.ManifestWork{
		work("a", unseen),
		work("b", func(w *workv1.ManifestWork) {
			w.Status.Conditions[0].Status, w.Status.Conditions[0].Message = metav1.ConditionFalse, "not you"
		}),
		work("c", func(*workv1.ManifestWork) {}),
		work("d", unseen),
	}
	var got []string
	for _, c := range BuildTrace(f, noon).Clusters {
		got = append(got, c.Reason)
	}
	want := []string{"namespace shop is not in the cluster yet: its agent has not processed work w", "namespace shop is not in the cluster: not you", "failed", "failed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What the hub itself looks at is read with the policies: what they name, and on a
// hub with nodes the label of the namespace.
func TestReadWhatKeepsAPolicy(t *testing.T) {
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}}
	policy.Spec.ResourceSelectors, policy.Spec.DependentOverrides = []policyv1alpha1.ResourceSelector{deployment("web")}, []string{"gone", "there"}
	r := Reader{Client: withEvents(t).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		policy, &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "there"}},
	).Build()}
	f, err := r.ReadObject(t.Context(), appsv1.SchemeGroupVersion.WithKind("Deployment"), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"OverridePolicy shop/gone"}, f.Absent); diff != "" || !f.Unserved {
		t.Errorf("unserved is %v, absent (-want +got):\n%s", f.Unserved, diff)
	}
}
