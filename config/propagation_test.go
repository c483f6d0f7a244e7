// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// specOf returns the beginning of the spec of an object of the kind that is valid.
func specOf(kind string) string {
	switch kind {
	case "ResourceBinding", "ClusterResourceBinding":
		return "resource: {apiVersion: v1, kind: ConfigMap, namespace: default, name: a}\n"
	case "OverridePolicy":
		return ""
	case "ResourceInterpreterCustomization":
		return "target: {apiVersion: example.com/v1, kind: Workload}\ncustomizations: {}\n"
	case "PropagationRollout", "ClusterPropagationRollout":
		return "policy: {name: web}\n"
	case "WorkloadRebalancer":
		return "workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}]\n"
	default:
		return "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n"
	}
}

// everyField has each field of a binding but those of its placement.
const everyField = `
resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u, resourceVersion: "7"}
propagateDeps: true
replicas: 3
replicaRequirements:
  namespace: shop
  priorityClassName: high
  resourceRequest: {cpu: 500m}
  nodeClaim:
    nodeSelector: {disk: fast}
    tolerations: [{key: gpu, operator: Exists}]
    hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}
components:
- name: part
  replicas: 2
  replicaRequirements:
    priorityClassName: low
    resourceRequest: {cpu: "1"}
    nodeClaim:
      nodeSelector: {disk: slow}
      tolerations: [{key: cpu, operator: Exists}]
      hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: b, operator: Exists}]}]}
clusters: [{name: a, replicas: 3, components: [{name: part, replicas: 2}]}]
requiredBy: [{namespace: shop, name: db, clusters: [{name: b, replicas: 1, components: [{name: part, replicas: 1}]}]}]
gracefulEvictionTasks:
- fromCluster: c
  purgeMode: Gracefully
  replicas: 1
  reason: Failed
  message: it does not answer
  producer: somebody
  gracePeriodSeconds: 60
  preservedLabelState: {id: "1"}
  creationTimestamp: "2026-01-01T00:00:00Z"
  clustersBeforeFailover: [c]
- {fromCluster: d, reason: Failed, producer: somebody, suppressDeletion: true}
placement: {clusterAffinity: {clusterNames: [a]}}
schedulerName: mine
failover:
  application:
    decisionConditions: {tolerationSeconds: 30}
    purgeMode: Gracefully
    gracePeriodSeconds: 60
    statePreservation: {rules: [{aliasLabelName: id, jsonPath: "{.id}"}]}
  cluster: {purgeMode: Directly, statePreservation: {rules: [{aliasLabelName: id, jsonPath: "{.id}"}]}}
conflictResolution: Overwrite
rescheduleTriggeredAt: "2026-01-01T00:00:00Z"
suspension: {dispatchingOnClusters: {clusterNames: [a]}, scheduling: true}
preserveResourcesOnDeletion: true
schedulePriority: {priority: 1000}
workloadAffinityGroups: {affinityGroup: app=web, antiAffinityGroup: tier=front}
`

// TestTheDefinitionsOfPropagationRefuse has an API server tell what the rules in
// the definitions say of objects, without any webhook. A definition whose rules
// could take too long is refused by the API server at once.
func TestTheDefinitionsOfPropagationRefuse(t *testing.T) {
	hub, err := client.New(startHub(t), client.Options{})
	expect.NoError(t, err)
	const overflow = "clusterAffinities: [{affinityName: a, clusterNames: [c], overflowAffinities: [{affinityName: b}]}]"
	const remedy = "move overriders into a rule"
	for name, c := range map[string]struct {
		kind, spec string
		// refusal is a part of the message; empty if the object is accepted.
		refusal string
	}{
		"no selector":                   {"PropagationPolicy", "resourceSelectors: []", "at least 1 items"},
		"one affinity":                  {"PropagationPolicy", "placement: {clusterAffinity: {clusterNames: [a]}, clusterAffinities: []}", ""},
		"both affinities":               {"PropagationPolicy", "placement: {clusterAffinity: {}, clusterAffinities: [{affinityName: a}]}", "exclude each other: remove one"},
		"groups of one name":            {"PropagationPolicy", "placement: {clusterAffinities: [{affinityName: a}, {affinityName: a}]}", "Duplicate value"},
		"a group of a long name":        {"PropagationPolicy", "placement: {clusterAffinities: [{affinityName: " + strings.Repeat("a", 33) + "}]}", "may not be more than 32"},
		"overflow of duplicates":        {"PropagationPolicy", "placement: {" + overflow + "}", "set replicaScheduling to"},
		"overflow by static weights":    {"PropagationPolicy", "placement: {" + overflow + ", replicaScheduling: {replicaDivisionPreference: Weighted}}", "set replicaScheduling to"},
		"overflow of divided replicas":  {"PropagationPolicy", "placement: {" + overflow + ", replicaScheduling: {replicaDivisionPreference: Aggregated}}", ""},
		"overflow by dynamic weights":   {"PropagationPolicy", "placement: {" + overflow + ", replicaScheduling: {weightPreference: {dynamicWeight: AvailableReplicas}}}", ""},
		"overflow from all clusters":    {"PropagationPolicy", "placement: {clusterAffinities: [{affinityName: a, overflowAffinities: [{affinityName: b}]}], replicaScheduling: {replicaDivisionPreference: Aggregated}}", "has to select clusters itself"},
		"spread by cluster":             {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 2}]}", ""},
		"spread by label":               {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByLabel: rack}, {spreadByLabel: row}]}", ""},
		"spread by region only":         {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: region}]}", "spreadByField cluster"},
		"spread by field and label":     {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster, spreadByLabel: rack}]}", "make two constraints"},
		"spread twice by cluster":       {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster}, {spreadByField: cluster, maxGroups: 2}]}", "same spreadByField"},
		"spread by rack":                {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: rack}]}", "supported values"},
		"spread over more than at most": {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]}", "minGroups is greater"},
		"spread without a limit":        {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 0}]}", ""},
		"spread over less than none":    {"PropagationPolicy", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: -1}]}", "greater than or equal to 0"},
		"together and apart":            {"PropagationPolicy", "placement: {workloadAffinity: {affinity: {groupByLabelKey: a}, antiAffinity: {groupByLabelKey: a}}}", "use another key"},
		"a weight of none":              {"PropagationPolicy", "placement: {replicaScheduling: {weightPreference: {staticWeightList: [{targetCluster: {}, weight: 0}]}}}", "greater than or equal to 1"},
		"preemption by kind":            {"PropagationPolicy", "preemption: Always", "set a name in each of resourceSelectors"},
		"preemption by name":            {"PropagationPolicy", "resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: a}]\npreemption: Always", ""},
		"failover without references":   {"PropagationPolicy", "failover: {application: {decisionConditions: {}}}", "set propagateDeps to true"},
		"failover":                      {"PropagationPolicy", "propagateDeps: true\nfailover: {application: {decisionConditions: {}, gracePeriodSeconds: 60}}", ""},
		"a period of no grace":          {"PropagationPolicy", "propagateDeps: true\nfailover: {application: {decisionConditions: {}, purgeMode: Directly, gracePeriodSeconds: 60}}", "gracePeriodSeconds is for purgeMode Gracefully only"},
		"a period by the older name":    {"PropagationPolicy", "propagateDeps: true\nfailover: {application: {decisionConditions: {}, purgeMode: Graciously, gracePeriodSeconds: 60}}", ""},
		"a period of nothing":           {"PropagationPolicy", "propagateDeps: true\nfailover: {application: {decisionConditions: {}, gracePeriodSeconds: 0}}", "greater than or equal to 1"},
		"toleration below zero":         {"PropagationPolicy", "propagateDeps: true\nfailover: {application: {decisionConditions: {tolerationSeconds: -1}}}", "greater than or equal to 0"},
		"clusters that keep objects":    {"PropagationPolicy", "failover: {cluster: {purgeMode: Never}}", "use Directly or Gracefully"},
		"suspended everywhere and more": {"PropagationPolicy", "suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [a]}}", "remove it or dispatchingOnClusters"},
		"suspended somewhere":           {"PropagationPolicy", "suspension: {dispatching: false, dispatchingOnClusters: {clusterNames: [a]}}", ""},
		"a conflict of another kind":    {"PropagationPolicy", "conflictResolution: Merge", "supported values"},
		"active at night":               {"PropagationPolicy", "activationPreference: Night", "supported values"},
		"a priority of another source":  {"PropagationPolicy", "schedulePriority: {priorityClassSource: Pod, priorityClassName: high}", "supported values"},
		"what has no rule": {
			"PropagationPolicy", "conflictResolution: Overwrite\nactivationPreference: Lazy\ndependentOverrides: [a]\npreserveResourcesOnDeletion: true\n" +
				"schedulePriority: {priorityClassSource: KubePriorityClass, priorityClassName: high}\nsuspension: {dispatching: true}", "",
		},
		"cluster policy":       {"ClusterPropagationPolicy", "preemption: Always", "set a name in each of resourceSelectors"},
		"the older form":       {"OverridePolicy", "targetCluster: {clusterNames: [a]}\noverriders: {plaintext: [{path: /a, operator: remove}]}", ""},
		"rules":                {"OverridePolicy", "overrideRules: [{overriders: {}}]\noverriders: {}", ""},
		"rules and a cluster":  {"OverridePolicy", "overrideRules: [{overriders: {}}]\ntargetCluster: {}", "move targetCluster into a rule"},
		"rules and overriders": {"OverridePolicy", "overrideRules: [{overriders: {}}]\noverriders: {argsOverrider: [{containerName: a, operator: add}]}", remedy},
		"an image's digest":    {"OverridePolicy", "overriders: {imageOverrider: [{component: Digest, operator: add}]}", "supported values"},
		"a cluster that is left at once": {
			"ResourceBinding", "gracefulEvictionTasks: [{fromCluster: a, reason: b, producer: c, gracePeriodSeconds: 1, suppressDeletion: false}]", "exclude each other: remove one",
		},
		"a binding with every field":         {"ResourceBinding", everyField, ""},
		"a cluster binding with every field": {"ClusterResourceBinding", everyField, ""},
		"a reason of two words": {
			"ResourceBinding", "gracefulEvictionTasks: [{fromCluster: a, reason: two words, producer: c}]", "should match",
		},
		"a rebalancer":                      {"WorkloadRebalancer", "ttlSecondsAfterFinished: 0", ""},
		"a rebalancer of the core group":    {"WorkloadRebalancer", "workloads: [{apiVersion: v1, kind: Namespace, name: a}]", ""},
		"a rebalancer of nothing":           {"WorkloadRebalancer", "workloads: []", "at least 1 items"},
		"a rebalancer without workloads":    {"WorkloadRebalancer", "workloads: null", "spec.workloads"},
		"a rebalancer of no version":        {"WorkloadRebalancer", "workloads: [{kind: Deployment, name: web}]", "spec.workloads[0].apiVersion"},
		"a rebalancer of a bad version":     {"WorkloadRebalancer", "workloads: [{apiVersion: apps/v1/x, kind: Deployment, name: web}]", "spec.workloads[0].apiVersion"},
		"a rebalancer of no kind":           {"WorkloadRebalancer", "workloads: [{apiVersion: v1, kind: '', name: web}]", "spec.workloads[0].kind"},
		"a rebalancer of no name":           {"WorkloadRebalancer", "workloads: [{apiVersion: v1, kind: ConfigMap}]", "spec.workloads[0].name"},
		"a rebalancer that lives too short": {"WorkloadRebalancer", "ttlSecondsAfterFinished: -1", "greater than or equal to 0"},
		"a rollout of everything": {
			"PropagationRollout", "groups: [{name: a, clusterNames: [b], labelSelector: {matchLabels: {c: d}}, claimSelector: {matchLabels: {e: f}}}]\n" +
				"maxConcurrency: 10%\nmaxFailures: 2\nminSuccessTime: 1m30s\nprogressDeadline: 0s\npaused: true", "",
		},
		"a rollout of a whole group at a time": {"PropagationRollout", "maxConcurrency: 100%\nmaxFailures: 0%", ""},
		"a rollout of nothing":                 {"PropagationRollout", "policy: null", "name one of policy and template"},
		"a rollout of two":                     {"PropagationRollout", "template: {apiVersion: apps/v1, kind: Deployment, name: web}", "name one of policy and template"},
		"a rollout of no kind":                 {"PropagationRollout", "policy: null\ntemplate: {apiVersion: apps/v1, name: web}", "spec.template.kind"},
		"a rollout to none at a time":          {"PropagationRollout", "maxConcurrency: 0", "maxConcurrency is a number from 1, or a percentage from 1% to 100%"},
		"a rollout to 0% at a time":            {"PropagationRollout", "maxConcurrency: 0%", "maxConcurrency is a number from 1"},
		"a rollout with a wrong percentage":    {"ClusterPropagationRollout", "maxFailures: 101%", "maxFailures is a number from 0, or a percentage from 0% to 100%"},
		"a rollout with a word":                {"PropagationRollout", "maxFailures: some", "maxFailures is a number from 0"},
		"a rollout without a unit of time":     {"PropagationRollout", "minSuccessTime: '5'", "spec.minSuccessTime"},
		"a rollout with a negative deadline":   {"PropagationRollout", "progressDeadline: -5m", "spec.progressDeadline"},
		"a rollout with an empty group":        {"PropagationRollout", "groups: [{name: a}]", "say which clusters the group has"},
		"a rollout with a group twice":         {"PropagationRollout", "groups: [{name: a, clusterNames: [b]}, {name: a, clusterNames: [c]}]", "Duplicate value"},
		"a rollout that undoes nothing":        {"PropagationRollout", "undo: 0", "greater than or equal to 1"},
		"a customization of everything": {
			"ResourceInterpreterCustomization", "customizations: {" + strings.Join(luaRules("f"), ", ") + "}", "",
		},
		"a customization of the core group": {"ResourceInterpreterCustomization", "target: {apiVersion: v1, kind: Pod}", ""},
		"a customization of a group": {
			"ResourceInterpreterCustomization", "target: {apiVersion: example.com/*, kind: Workload}", "apiVersion is the group and the version of the kind, such as example.com/v1",
		},
		"a customization of a resource":        {"ResourceInterpreterCustomization", "target: {apiVersion: example.com/v1, kind: workloads.example.com}", "kind is the name of one kind"},
		"a customization without a kind":       {"ResourceInterpreterCustomization", "target: {apiVersion: example.com/v1}", "Required value"},
		"a customization with an empty script": {"ResourceInterpreterCustomization", "customizations: {retention: {luaScript: ''}}", "at least 1 chars"},
		"a customization with a long script":   {"ResourceInterpreterCustomization", "customizations: {retention: {luaScript: " + strings.Repeat("a", 65537) + "}}", "may not be more than 65536"},
		"a customization without its script":   {"ResourceInterpreterCustomization", "customizations: {retention: {}}", "Required value"},
		"a spread over what no number is":      {"ResourceBinding", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1e30}]}", "minGroups"},
		"a part with a long name":              {"ResourceBinding", "components: [{name: " + strings.Repeat("a", 33) + ", replicas: 1}]", "may not be more than 32"},
	} {
		t.Run(name, func(t *testing.T) {
			object := propagationObject(t, c.kind, c.spec)
			given := object.DeepCopy().Object["spec"].(map[string]any)
			err := hub.Create(t.Context(), object, client.DryRunAll)
			switch {
			case c.refusal == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.refusal == "":
				for field, value := range given {
					if diff := cmp.Diff(value, object.Object["spec"].(map[string]any)[field], cmp.FilterPath(filledIn, cmp.Ignore())); diff != "" {
						t.Errorf("%s is not kept (-given +kept):\n%s", field, diff)
					}
				}
			case c.refusal != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.refusal)):
				t.Errorf("got %v, want a refusal with %q", err, c.refusal)
			}
		})
	}
	t.Run("another scheduler", func(t *testing.T) {
		policy := propagationObject(t, "PropagationPolicy", "")
		expect.NoError(t, hub.Create(t.Context(), policy))
		policy.Object["spec"].(map[string]any)["schedulerName"] = "mine"
		if err := hub.Update(t.Context(), policy); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "delete the policy and create another one") {
			t.Errorf("got %v", err)
		}
	})
}

// luaRules returns each operation of a customization with a script.
func luaRules(script string) []string {
	var all []string
	for _, operation := range []string{
		"retention", "replicaResource", "componentResource", "replicaRevision", "statusReflection", "statusAggregation",
		"healthInterpretation", "dependencyInterpretation",
	} {
		all = append(all, operation+": {luaScript: "+script+"}")
	}
	return all
}

// filledIn reports whether a path leads to a field that was not given, and for which the
// API server has a default.
func filledIn(path cmp.Path) bool {
	field, ok := path.Last().(cmp.MapIndex)
	if !ok {
		return false
	}
	given, _ := field.Values()
	return !given.IsValid() && slices.Contains([]string{"progressDeadline", "purgeMode", "replicaSchedulingType", "tolerationSeconds"}, field.Key().String())
}

// propagationObject returns an object of the kind with the spec, over what it has
// to have.
func propagationObject(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	for _, part := range []string{specOf(kind), spec} {
		some := map[string]any{}
		expect.NoError(t, yaml.Unmarshal([]byte(part), &some))
		maps.Copy(fields, some)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	object.SetAPIVersion("policy.karmada.io/v1alpha1")
	if strings.HasSuffix(kind, "ResourceBinding") {
		object.SetAPIVersion("work.karmada.io/v1alpha2")
	}
	if kind == "WorkloadRebalancer" {
		object.SetAPIVersion("apps.karmada.io/v1alpha1")
	}
	if strings.HasSuffix(kind, "PropagationRollout") {
		object.SetAPIVersion("fleet.capstan.io/v1alpha1")
	}
	if kind == "ResourceInterpreterCustomization" {
		object.SetAPIVersion("config.karmada.io/v1alpha1")
	}
	object.SetKind(kind)
	object.SetName("a")
	if !strings.HasPrefix(kind, "Cluster") && kind != "ResourceInterpreterCustomization" && kind != "WorkloadRebalancer" {
		object.SetNamespace("default")
	}
	return object
}
