// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/health"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// web is a Deployment that a policy claims, "" for none.
func web(claimedBy string) *ObjectFacts {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apps/v1")
	object.SetKind("Deployment")
	object.SetNamespace("shop")
	object.SetName("web")
	object.SetLabels(map[string]string{"app": "web"})
	namespace, name, found := strings.Cut(claimedBy, "/")
	switch {
	case found:
		object.SetAnnotations(map[string]string{policyv1alpha1.AnnotationPropagationPolicyNamespace: namespace, policyv1alpha1.AnnotationPropagationPolicyName: name})
	case claimedBy != "":
		object.SetAnnotations(map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: claimedBy})
	}
	return &ObjectFacts{
		Ref:      workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Template: object,
	}
}

func (f *ObjectFacts) policy(name string, priority int32, selectors ...policyv1alpha1.ResourceSelector) *ObjectFacts {
	f.Policies = append(f.Policies, policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       policyv1alpha1.PropagationSpec{Priority: &priority, ResourceSelectors: selectors},
	})
	return f
}

func (f *ObjectFacts) clusterPolicy(name string, priority int32, selectors ...policyv1alpha1.ResourceSelector) *ObjectFacts {
	f.ClusterPolicies = append(f.ClusterPolicies, policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1alpha1.PropagationSpec{Priority: &priority, ResourceSelectors: selectors},
	})
	return f
}

// preempting has all policies take objects over.
func (f *ObjectFacts) preempting() *ObjectFacts {
	for i := range f.Policies {
		f.Policies[i].Spec.Preemption = policyv1alpha1.PreemptAlways
	}
	for i := range f.ClusterPolicies {
		f.ClusterPolicies[i].Spec.Preemption = policyv1alpha1.PreemptAlways
	}
	return f
}

func deployment(name string) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

func labelled(value string) policyv1alpha1.ResourceSelector {
	s := deployment("")
	s.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	return s
}

func TestPolicies(t *testing.T) {
	elsewhere := deployment("web")
	elsewhere.Namespace = "bank"
	for name, test := range map[string]struct {
		facts *ObjectFacts
		want  []string // the policy that claims it, and the others
	}{
		"none": {web(""), []string{"none"}},
		"none claims it yet, the best comes first": {
			web("").clusterPolicy("c", 9, deployment("web")).policy("b", 1, deployment("")).policy("a", 0, deployment("web")).policy("z", 1, labelled("web")),
			[]string{"none", "PropagationPolicy shop/z by labels", "PropagationPolicy shop/b by kind", "PropagationPolicy shop/a by name", "ClusterPropagationPolicy c by name"},
		},
		"why the others do not": {
			web("shop/b").policy("b", 3, labelled("web")).policy("low", 2, deployment("web")).policy("kind", 3, deployment("")).policy("c", 3, labelled("web")).clusterPolicy("all", 9, deployment("web")),
			[]string{
				"PropagationPolicy shop/b by labels",
				"PropagationPolicy shop/c by labels: of equal policies the first by name wins",
				"PropagationPolicy shop/kind by kind: it selects by kind, which is less specific than by labels",
				"PropagationPolicy shop/low by name: its priority 2 is less than 3",
				"ClusterPropagationPolicy all by name: a PropagationPolicy takes precedence over any ClusterPropagationPolicy",
			},
		},
		"a better one comes late": {
			web("shop/old").policy("old", 0, deployment("")).policy("new", 5, deployment("web")),
			[]string{"PropagationPolicy shop/old by kind", "PropagationPolicy shop/new by name: it would take precedence, but an object stays with the policy that has claimed it"},
		},
		"others take it over": {
			web("old").clusterPolicy("old", 5, deployment("web")).clusterPolicy("same", 5, deployment("web")).policy("own", 0, deployment("web")).preempting(),
			[]string{
				"ClusterPropagationPolicy old by name",
				"PropagationPolicy shop/own by name: it takes the object over if feature gate PropagationPolicyPreemption of the hub is on: in a moment then",
				"ClusterPropagationPolicy same by name: of equal policies the first by name wins",
			},
		},
		"it does not select it any more": {
			web("old").clusterPolicy("old", 0, deployment("db")).policy("new", 0, deployment("web")),
			[]string{
				"ClusterPropagationPolicy old: it no longer selects the object: the hub's propagation controller releases it in a moment",
				"PropagationPolicy shop/new by name: it selects the object, and waits for the other to release it",
			},
		},
		"it is gone": {
			web("shop/gone").policy("new", 0, deployment("web")),
			[]string{"PropagationPolicy shop/gone: it was not found", "PropagationPolicy shop/new by name: another policy has claimed the object"},
		},
		"some come near": {
			web("").policy("labels", 0, labelled("db")).policy("name", 0, deployment("db")).
				policy("version", 0, policyv1alpha1.ResourceSelector{APIVersion: "apps/v1beta1", Kind: "Deployment"}).
				policy("spelling", 0, policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "deployment"}).
				policy("other", 0, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Secret"}).clusterPolicy("elsewhere", 0, elsewhere),
			[]string{
				"none",
				`PropagationPolicy shop/labels: it selects labels "app=db", and the object has "app=web"`,
				`PropagationPolicy shop/name: it selects the one with name "db"`,
				`PropagationPolicy shop/spelling: it selects kind "deployment", which is spelled Deployment`,
				"PropagationPolicy shop/version: it selects apiVersion apps/v1beta1, and the hub serves it as apps/v1",
				"ClusterPropagationPolicy elsewhere: it selects only in namespace bank",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			told := func(p Policy) string {
				text := p.String()
				if p.SelectsBy != "" {
					text += " by " + p.SelectsBy
				}
				if p.Reason != "" {
					text += ": " + p.Reason
				}
				return text
			}
			got := []string{"none"}
			trace := BuildTrace(test.facts, noon)
			if trace.ClaimedBy != nil {
				got[0] = told(*trace.ClaimedBy)
			}
			for _, p := range trace.Candidates {
				got = append(got, told(p))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func cluster(name string) clusterv1.ManagedCluster {
	return clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func work(namespace string, change func(*workv1.ManifestWork)) workv1.ManifestWork {
	w := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w", Generation: 2}}
	w.Status.Conditions = []metav1.Condition{{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, ObservedGeneration: 2}}
	change(&w)
	return w
}

func TestClusters(t *testing.T) {
	silent := cluster("silent")
	silent.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	f := web("")
	f.Clusters = []clusterv1.ManagedCluster{cluster("behind"), cluster("fails"), cluster("fine"), cluster("left"), cluster("new"), silent, cluster("suspended"), cluster("unchosen"), cluster("refused")}
	f.Clusters[8].Spec.Taints = []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelect}}
	f.Binding = &BindingObject{Kind: kindBinding, Spec: workv1alpha2.ResourceBindingSpec{
		Placement:  &policyv1alpha1.Placement{},
		Clusters:   []workv1alpha2.TargetCluster{{Name: "fine", Replicas: 2}, {Name: "behind"}, {Name: "fails"}, {Name: "gone"}, {Name: "silent"}, {Name: "suspended"}},
		RequiredBy: []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: "other", Clusters: []workv1alpha2.TargetCluster{{Name: "fine", Replicas: 9}, {Name: "new"}}}},
	}}
	f.Works = []workv1.ManifestWork{
		work("fine", func(w *workv1.ManifestWork) {
			w.Annotations = map[string]string{policyv1alpha1.AnnotationAppliedOverrides: `[{"policyName":"a"},{"policyName":"a"}]`, policyv1alpha1.AnnotationAppliedClusterOverrides: "{"}
		}),
		work("behind", func(w *workv1.ManifestWork) { w.Generation = 3 }),
		work("fails", func(w *workv1.ManifestWork) {
			w.Status.Conditions[0].Status, w.Status.Conditions[0].Message = metav1.ConditionFalse, "some failed"
		}),
		work("silent", func(*workv1.ManifestWork) {}),
		work("suspended", func(w *workv1.ManifestWork) {
			w.Annotations = map[string]string{workv1.AnnotationSuspendDispatching: "true"}
		}),
		work("left", func(w *workv1.ManifestWork) { w.DeletionTimestamp = &metav1.Time{Time: noon} }),
	}
	f.Binding.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{
		{ClusterName: "fine", Applied: true, AppliedMessage: "Warning: without .spec.color"}, {ClusterName: "silent", Applied: true, AppliedMessage: "as it was"},
	}
	trace := BuildTrace(f, noon)
	var got []string
	for _, c := range trace.Clusters {
		seen := "now"
		if c.SilentSince != nil {
			seen = "then"
		}
		got = append(got, strings.Join([]string{c.Name, yesNo(c.Chosen), c.Applied, strings.Join(c.Overrides, ","), seen, c.Reason}, "|"))
	}
	want := []string{
		"behind|yes|unknown||now|the agent of the cluster has not processed the latest change yet",
		"fails|yes|no||now|some failed",
		"fine|yes|yes|ClusterOverridePolicy (its annotation cannot be read),OverridePolicy a|now|Warning: without .spec.color",
		"gone|yes|||now|the cluster no longer exists",
		"new|yes|||now|it has no work yet",
		"silent|yes|yes||then|",
		"suspended|yes|suspended||now|changes are not sent while it is suspended",
		"left|no|deleting||now|it is no longer chosen: the work is being removed",
		"refused|no|||now|taint gpu:NoSelect is not tolerated",
		"unchosen|no|||now|it would be chosen now",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "2 of 7 chosen clusters have it as desired"; trace.Summary != want {
		t.Errorf("got %q, want %q", trace.Summary, want)
	}
}

func TestBriefStatus(t *testing.T) {
	for status, want := range map[string]string{
		`{"replicas":3}`:                               "0/3 ready",
		`{"replicas":3,"readyReplicas":2}`:             "2/3 ready",
		`{"desiredNumberScheduled":2,"numberReady":1}`: "1/2 ready",
		`{"succeeded":1}`:                              "0 active, 1 succeeded, 0 failed",
		`{"phase":"Bound"}`:                            "Bound",
		`{"conditions":[]}`:                            "",
		`{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"},{"hostname":"lb.example.com"}]}}`:                       "10.0.0.1, lb.example.com",
		`{"loadBalancer":{"ingress":[{"ip":"a"},{"ip":"b"},{"ip":"c"},{"ip":"d"},{"hostname":"e","ip":"f"}]}}`: "a, b, c, and 3 more",
		`{"loadBalancer":{"ingress":[{"hostname":"` + strings.Repeat("x", 254) + `"}]}}`:                       "",
		`{"loadBalancer":{}}`:                "",
		`{"loadBalancer":7,"phase":"Ready"}`: "Ready",
		`{"replicas":"many"}`:                "",
		`[]`:                                 "",
		``:                                   "",
	} {
		if got := health.BriefStatus([]byte(status)); got != want {
			t.Errorf("%s: got %q, want %q", status, got, want)
		}
	}
}

func TestPartsThatArePlacedTogether(t *testing.T) {
	f := web("")
	f.Clusters = []clusterv1.ManagedCluster{cluster("a"), cluster("b")}
	parts := []workv1alpha2.TargetComponent{{Name: "job", Replicas: 1}, {Name: "task", Replicas: 2}}
	divided := &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}
	f.Binding = &BindingObject{Kind: kindBinding, Spec: workv1alpha2.ResourceBindingSpec{
		Placement:  &policyv1alpha1.Placement{ReplicaScheduling: divided},
		Components: []workv1alpha2.Component{{Name: "job", Replicas: 1}, {Name: "task", Replicas: 2}},
		Clusters:   []workv1alpha2.TargetCluster{{Name: "b", Components: parts}},
	}}
	text := BuildTrace(f, noon).FormatText()
	for _, want := range []string{"COMPONENTS", "job 1, task 2", "another cluster has all parts: they are placed together", "All its parts are placed together"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "decides again") {
		t.Errorf("the hub would decide anew:\n%s", text)
	}
}

func TestReplicasThatWait(t *testing.T) {
	divided := &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}
	for reason, want := range map[string][2]string{
		workv1alpha2.BindingReasonUnschedulable: {"fleet.capstan.io/partial-placement=true of the policy", "the rest are placed when clusters have more room"},
		workv1alpha2.BindingReasonNoClusterFit:  {},
	} {
		for n, value := range []string{"false", "true"} {
			b := &BindingObject{Spec: workv1alpha2.ResourceBindingSpec{Placement: &policyv1alpha1.Placement{ReplicaScheduling: divided}}}
			b.Annotations = map[string]string{fleetv1alpha1.AnnotationPartialPlacement: value}
			b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionScheduled, Status: metav1.ConditionFalse, Reason: reason}}
			if got := b.shortageNote(); !strings.Contains(got, want[n]) || want[n] == "" && got != "" {
				t.Errorf("%s with %s: %q, want %q", reason, value, got, want[n])
			}
		}
	}
}

// A workload that has no cluster sees where others of its group are.
func TestWorkloadsApart(t *testing.T) {
	f := web("")
	f.Clusters = []clusterv1.ManagedCluster{cluster("a")}
	groups := &workv1alpha2.WorkloadAffinityGroups{AntiAffinityGroup: "app=web"}
	f.Binding = &BindingObject{Kind: kindBinding, Spec: workv1alpha2.ResourceBindingSpec{Placement: &policyv1alpha1.Placement{}, WorkloadAffinityGroups: groups, Resource: f.Ref}}
	other := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
		WorkloadAffinityGroups: groups, Clusters: []workv1alpha2.TargetCluster{{Name: "a"}}, Resource: workv1alpha2.ObjectReference{Name: "other"},
	}}
	f.Peers = []workv1alpha2.Binding{f.Binding.asBinding(), other}
	if text := BuildTrace(f, noon).FormatText(); !strings.Contains(text, "another workload of the anti-affinity group is there") {
		t.Errorf("it does not say why:\n%s", text)
	}
}
