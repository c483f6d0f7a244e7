// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, uid: u, resourceVersion: "7"}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {disk: fast}
      priorityClassName: high
      tolerations: [{key: gpu, operator: Exists}]
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
      containers: [{name: web, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
`

const everything = `
propagateDeps: true
schedulerName: default-scheduler
conflictResolution: Overwrite
preserveResourcesOnDeletion: true
suspension: {dispatchingOnClusters: {clusterNames: [member2]}}
placement: {clusterAffinity: {clusterNames: [member1, member2]}}
failover:
  application:
    decisionConditions: {tolerationSeconds: 30}
    purgeMode: Gracefully
    gracePeriodSeconds: 60
    statePreservation: {rules: [{aliasLabelName: at, jsonPath: "{.position}"}]}
  cluster:
    purgeMode: Directly
    statePreservation: {rules: [{aliasLabelName: of, jsonPath: "{.offset}"}]}
`

// wanted is what the binding is to say, in the order of its fields.
const wanted = `
resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u, resourceVersion: "7"}
propagateDeps: true
replicas: 3
replicaRequirements:
  namespace: shop
  priorityClassName: high
  resourceRequest: {cpu: 500m, memory: 1Gi}
  nodeClaim:
    nodeSelector: {disk: fast}
    tolerations: [{key: gpu, operator: Exists}]
    hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}
placement: {clusterAffinity: {clusterNames: [member1, member2]}}
schedulerName: default-scheduler
conflictResolution: Overwrite
preserveResourcesOnDeletion: true
suspension: {dispatchingOnClusters: {clusterNames: [member2]}}
failover:
  application:
    decisionConditions: {tolerationSeconds: 30}
    purgeMode: Gracefully
    gracePeriodSeconds: 60
    statePreservation: {rules: [{aliasLabelName: at, jsonPath: "{.position}"}]}
  cluster:
    purgeMode: Directly
    statePreservation: {rules: [{aliasLabelName: of, jsonPath: "{.offset}"}]}
schedulePriority: {priority: 1000}
`

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func TestTheBindingSaysWhatObjectAndPolicyAsk(t *testing.T) {
	object, policy, want := &unstructured.Unstructured{}, &policyv1alpha1.PropagationPolicy{}, workv1alpha2.ResourceBindingSpec{}
	read(t, web, &object.Object)
	read(t, everything, &policy.Spec)
	read(t, wanted, &want)

	got, err := BindingSpecFor(object, policy, interpret.Chain{native.NewKubernetesKinds()}, new(int32(1000)))

	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: the binding says something else (-want +got):\n%s", err, diff)
	}
}

// parted knows the parts of a kind.
type parted []interpret.Component

func (p parted) Operations(schema.GroupVersionKind) interpret.Operations {
	return interpret.Operations{Components: func(map[string]any) []interpret.Component { return p }}
}

// components is what the binding is to say of an object with two parts.
const components = `
components:
- name: jobmanager
  replicas: 1
  replicaRequirements:
    priorityClassName: high
    resourceRequest: {cpu: 500m}
    nodeClaim:
      nodeSelector: {disk: fast}
      tolerations: [{key: gpu, operator: Exists}]
      hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}
- name: taskmanager
  replicas: 2
`

func TestComponentsAreThePartsOfTheObject(t *testing.T) {
	job := interpret.Component{Name: "jobmanager", Replicas: 1, Needs: &interpret.Requirements{
		NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}},
		}}},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}, PriorityClassName: "high",
	}}
	task := interpret.Component{Name: "taskmanager", Replicas: 2}
	scaled, one, two := "replicas: 3\nreplicaRequirements: {namespace: shop}\n", "components: [{name: taskmanager, replicas: 2}]", components
	for name, test := range map[string]struct {
		layers interpret.Chain
		want   string
	}{
		"a kind with one pod template":        {interpret.Chain{native.NewKubernetesKinds()}, scaled},
		"several parts go before replicas":    {interpret.Chain{parted{job, task}, native.NewKubernetesKinds()}, two},
		"one part, and the kind has replicas": {interpret.Chain{parted{task}, native.NewKubernetesKinds()}, scaled},
		"one part of a kind without replicas": {interpret.Chain{parted{task}}, one},
		"no parts":                            {interpret.Chain{parted{}, native.NewKubernetesKinds()}, scaled},
		"parts with less than nothing":        {interpret.Chain{parted{{Name: "a", Replicas: -1}, {Name: "b"}}}, "components: [{name: a, replicas: 0}, {name: b, replicas: 0}]"},
	} {
		object, policy, want := &unstructured.Unstructured{}, &policyv1alpha1.PropagationPolicy{}, workv1alpha2.ResourceBindingSpec{}
		read(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: shop, name: web}\nspec: {replicas: 3}", &object.Object)
		read(t, test.want, &want)
		got, err := BindingSpecFor(object, policy, test.layers, nil)
		if err := errors.Join(err, ComposeComponents(&got, object, test.layers)); err != nil {
			t.Error(err)
		}
		got.Resource, got.Placement = workv1alpha2.ObjectReference{}, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the binding says something else (-want +got):\n%s", name, diff)
		}
	}
}

func TestGroupsAreByLabels(t *testing.T) {
	for name, test := range map[string]struct{ affinity, together, apart string }{
		"none":         {"{}", "", ""},
		"together":     {"{affinity: {groupByLabelKey: app}}", "app=web", ""},
		"apart":        {"{antiAffinity: {groupByLabelKey: tier}}", "", "tier="},
		"both":         {"{affinity: {groupByLabelKey: app}, antiAffinity: {groupByLabelKey: tier}}", "app=web", "tier="},
		"not labelled": {"{affinity: {groupByLabelKey: team}, antiAffinity: {groupByLabelKey: tier}}", "", "tier="},
	} {
		object, policy := &unstructured.Unstructured{Object: map[string]any{}}, &policyv1alpha1.PropagationPolicy{}
		object.SetLabels(map[string]string{"app": "web", "tier": ""})
		if AffinityGroupsOf(object, policy) != nil {
			t.Errorf("%s: groups without an affinity", name)
		}
		policy.Spec.Placement.WorkloadAffinity = &policyv1alpha1.WorkloadAffinity{}
		read(t, test.affinity, policy.Spec.Placement.WorkloadAffinity)
		got := AffinityGroupsOf(object, policy)
		if test.together+test.apart == "" {
			if got != nil {
				t.Errorf("%s: got %+v", name, got)
			}
			continue
		}
		if got == nil || got.AffinityGroup != test.together || got.AntiAffinityGroup != test.apart {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestAPolicyMayPlaceAPart(t *testing.T) {
	const key = fleetv1alpha1.AnnotationPartialPlacement
	policy, b := &policyv1alpha1.PropagationPolicy{}, &workv1alpha2.ResourceBinding{}
	for _, value := range []string{"", "true", "true", "false", ""} {
		policy.Annotations = map[string]string{"mine": "1", key: value}
		if value == "" {
			delete(policy.Annotations, key)
		}
		MarkPartialPlacement(b, policy)
		if got, said := b.Annotations[key]; got != value || said != (value != "") || b.Annotations["mine"] != "" {
			t.Errorf("the policy says %q, and the binding has %v", value, b.Annotations)
		}
	}
}

// TestWhatIsNotThePolicysStays has a policy that says nothing of what others wrote.
// others is what a binding says that is not of its policy: its clusters, evictions with
// every field, and who else needs the object.
const others = `
clusters: [{name: member1, replicas: 3}]
gracefulEvictionTasks:
- fromCluster: member2
  replicas: 2
  reason: TaintUntolerated
  message: it is gone
  producer: TaintManager
  gracePeriodSeconds: 60
  suppressDeletion: true
  purgeMode: Gracefully
  preservedLabelState: {a: b}
  clustersBeforeFailover: [member2]
  creationTimestamp: "2026-03-01T12:00:00Z"
requiredBy:
- {namespace: shop, name: db, clusters: [{name: member1, replicas: 2, components: [{name: main, replicas: 1}]}]}
`

func TestWhatIsNotThePolicysStays(t *testing.T) {
	then := metav1.NewTime(time.Unix(1000, 0))
	present := &workv1alpha2.ResourceBindingSpec{
		RescheduleTriggeredAt: &then,
		Suspension:            &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{Dispatching: new(true)}, Scheduling: new(true)},
		PropagateDeps:         true,
		SchedulePriority:      &workv1alpha2.SchedulePriority{Priority: 7},
	}
	read(t, others, present)
	got := &workv1alpha2.ResourceBindingSpec{Replicas: 5}
	PreserveDecidedFields(got, present)

	want := present.DeepCopy()
	want.Replicas, want.PropagateDeps, want.SchedulePriority = 5, false, nil
	want.Suspension.Dispatching = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept is something else (-want +got):\n%s", diff)
	}
}
