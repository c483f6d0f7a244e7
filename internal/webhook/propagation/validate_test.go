// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	sigsyaml "sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// told compares the mistakes, each by the beginning of its message, and the
// warnings.
func told(t *testing.T, warnings admission.Warnings, wrong fieldMistakes, wantWarnings, want []string) {
	t.Helper()
	var got []string
	for _, problem := range wrong {
		got = append(got, problem.Error())
	}
	if len(got) != len(want) {
		t.Fatalf("got the mistakes %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got the mistake %q, want %q", got[i], want[i])
		}
	}
	if diff := cmp.Diff(wantWarnings, []string(warnings)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestMistakesInPropagationPolicies(t *testing.T) {
	const deployments = "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n"
	for name, c := range map[string]struct {
		namespace, spec string
		want, warnings  []string
	}{
		"none": {namespace: "shop", spec: deployments},
		"everything that can be right": {namespace: "shop", spec: deployments + `
placement:
  clusterAffinities:
  - {affinityName: a, labelSelector: {matchLabels: {env: production}}, fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}}
  - {affinityName: b, clusterNames: [c], overflowAffinities: [{affinityName: c, exclude: [d]}]}
  clusterTolerations: [{operator: Exists}, {effect: NoSchedule}, {operator: Equal, value: only}, {}, {key: gpu, value: only, effect: NoSchedule}, {key: gpu, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
  spreadConstraints: [{spreadByLabel: example.com/rack}]
  workloadAffinity: {affinity: {groupByLabelKey: app}, antiAffinity: {groupByLabelKey: tier}}
failover:
  application: {decisionConditions: {}, statePreservation: {rules: [{aliasLabelName: example.com/job, jsonPath: "{.jobStatus.jobID}"}]}}`},
		"a selector of another namespace": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: kube-system}]",
			want: []string{`spec.resourceSelectors[0].namespace: Invalid value: "kube-system": must be the namespace of the policy`},
		},
		"any namespace for all": {spec: "resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: shop}]"},
		"selectors of nothing": {
			spec: `resourceSelectors: [{apiVersion: a/b/c, kind: A, labelSelector: {matchLabels: {"!": a}}}, {apiVersion: "", kind: ""}]`,
			want: []string{
				`spec.resourceSelectors[0].labelSelector: Invalid value`, `spec.resourceSelectors[0].apiVersion: Invalid value: "a/b/c": want VERSION or GROUP/VERSION`,
				`spec.resourceSelectors[1].apiVersion: Invalid value: ""`, `spec.resourceSelectors[1].kind: Required value: such as Deployment`,
			},
		},
		"affinities": {
			spec: deployments + `
placement:
  clusterAffinity: {fieldSelector: {matchExpressions: [{key: rack, operator: Exists}]}}
  clusterAffinities:
  - {affinityName: a, overflowAffinities: [{affinityName: a, labelSelector: {matchLabels: {a: "!"}}}]}
  replicaScheduling: {weightPreference: {staticWeightList: [{weight: 1, targetCluster: {fieldSelector: {matchExpressions: [{key: zone, operator: In}]}}}]}}`,
			want: []string{
				`spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key: Unsupported value: "rack"`,
				`spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].operator: Unsupported value: "Exists"`,
				`spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].values: Required value`,
				`spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName: Duplicate value: "a"`,
				`spec.placement.clusterAffinities[0].overflowAffinities[0].labelSelector: Invalid value`,
				`spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.fieldSelector.matchExpressions[0].values: Required value`,
			},
		},
		"tolerations": {
			spec: deployments + "placement: {clusterTolerations: [{key: a, operator: Lt, value: '1'}, {operator: Gt}, {key: '!', operator: Exists, value: c}, {key: d, effect: Never, tolerationSeconds: 1}, {key: e, value: '!'}]}",
			want: []string{
				`spec.placement.clusterTolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"`,
				`spec.placement.clusterTolerations[1].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"`,
				`spec.placement.clusterTolerations[2].key: Invalid value: "!"`,
				`spec.placement.clusterTolerations[2].value: Invalid value: "c": leave it out`,
				`spec.placement.clusterTolerations[3].effect: Unsupported value: "Never"`,
				`spec.placement.clusterTolerations[3].effect: Invalid value: "Never": tolerationSeconds is for effect NoExecute only`,
				`spec.placement.clusterTolerations[4].value: Invalid value: "!"`,
			},
		},
		"keys of labels": {
			spec: deployments + "placement: {spreadConstraints: [{spreadByLabel: 'a b'}], workloadAffinity: {affinity: {groupByLabelKey: 'a b'}, antiAffinity: {groupByLabelKey: 'c d'}}}",
			want: []string{
				`spec.placement.spreadConstraints[0].spreadByLabel: Invalid value: "a b": invalid label key: `,
				`spec.placement.workloadAffinity.affinity.groupByLabelKey: Invalid value: "a b"`,
				`spec.placement.workloadAffinity.antiAffinity.groupByLabelKey: Invalid value: "c d"`,
			},
		},
		"state that cannot be preserved": {
			spec: deployments + "failover: {cluster: {statePreservation: {rules: [{aliasLabelName: 'a b', jsonPath: '{.a'}, {aliasLabelName: a, jsonPath: ' '}]}}}",
			want: []string{
				`spec.failover.cluster.statePreservation.rules[0].aliasLabelName: Invalid value: "a b": invalid label key: `,
				`spec.failover.cluster.statePreservation.rules[0].jsonPath: Invalid value: "{.a": want a JSONPath in braces`,
				`spec.failover.cluster.statePreservation.rules[1].jsonPath: Invalid value: " "`,
			},
		},
		"what is never sent": {
			spec: "resourceSelectors: [{apiVersion: v1, kind: Node}, {apiVersion: v1, kind: Secret, namespace: kube-system}, {apiVersion: v1, kind: Secret}]",
			warnings: []string{
				"spec.resourceSelectors[0]: Node is never sent to clusters: it is a machine of the hub",
				"spec.resourceSelectors[1]: nothing of namespace kube-system is sent to clusters: it is for Kubernetes",
				"spec.resourceSelectors: what a cluster needs of this, such as the webhooks of an operator, an administrator can bring there with a ManifestWork",
			},
		},
		"of a reserved namespace": {
			namespace: "karmada-es-member1", spec: deployments,
			warnings: []string{
				"spec.resourceSelectors[0]: nothing of namespace karmada-es-member1 is sent to clusters: it is for the fleet's own components",
				"spec.resourceSelectors: " + claims.InsteadOfPolicy,
			},
		},
		"older names": {
			spec: deployments + "association: true\nfailover: {application: {decisionConditions: {}, purgeMode: Immediately}, cluster: {purgeMode: Graciously}}",
			warnings: []string{
				"spec.association has no effect: use propagateDeps",
				"spec.failover.application.purgeMode: Immediately is deprecated: use Directly",
				"spec.failover.cluster.purgeMode: Graciously is deprecated: use Gracefully",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &policyv1alpha1.PropagationSpec{}
			if err := sigsyaml.UnmarshalStrict([]byte(c.spec), spec); err != nil {
				t.Fatal(err)
			}
			warnings, wrong := checkPropagation(c.namespace, spec)
			told(t, warnings, wrong, c.warnings, c.want)
		})
	}
}

// A path as long as a request can be would end the process: the parser calls itself for
// each of its characters.
func TestHostileJSONPathsAreNotParsed(t *testing.T) {
	rules := []policyv1alpha1.StatePreservationRule{{AliasLabelName: "a", JSONPath: "{" + strings.Repeat(" ", 3<<20)}}
	_, wrong := checkPropagation("shop", &policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}},
		Failover:          &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{StatePreservation: &policyv1alpha1.StatePreservation{Rules: rules}}},
	})
	told(t, nil, wrong, nil, []string{"spec.failover.cluster.statePreservation.rules[0].jsonPath: Too long: may not be more than 4098 bytes"})
	if message := wrong.ToAggregate().Error(); len(message) > 1000 {
		t.Errorf("the message has %d bytes: it repeats what was sent", len(message))
	}
}

func TestMistakesInOverridePolicies(t *testing.T) {
	for name, c := range map[string]struct {
		overriders     string
		want, warnings []string
	}{
		"none": {overriders: `
plaintext: [{path: /metadata/annotations/example.com~1a, operator: add, value: {a: b}}, {path: /spec/list/-, operator: add, value: 0}, {path: /a, operator: remove}]
imageOverrider:
- {component: Registry, operator: replace, value: "registry.example.com:5000"}
- {component: Registry, operator: add, value: ".eu"}
- {component: Repository, operator: replace, value: shop/web, predicate: {path: /spec/template/spec/containers/0/image}}
- {component: Repository, operator: add, value: -alpine}
- {component: Tag, operator: replace, value: "1.27"}
- {component: Tag, operator: add, value: -alpine}
- {component: Tag, operator: replace, value: "sha256:` + strings.Repeat("a", 64) + `"}
- {component: Tag, operator: replace, value: "1.27@sha256:` + strings.Repeat("a", 64) + `"}
- {component: Tag, operator: remove}
commandOverrider: [{containerName: web, operator: add, value: [a]}]
argsOverrider: [{containerName: web, operator: remove, value: [a]}]
labelsOverrider: [{operator: add, value: {example.com/a: b}}]
annotationsOverrider: [{operator: remove, value: {example.com/a: "any thing"}}]
fieldOverrider: [{fieldPath: /data/a.json, json: [{subPath: /b, operator: replace, value: [1]}]}, {fieldPath: /data/a.yaml, yaml: [{subPath: /b, operator: remove}]}]`},
		"pointers": {
			overriders: "plaintext: [{path: spec.replicas, operator: remove}, {path: '/a~2', operator: remove}, {path: '', operator: remove}]\n" +
				"imageOverrider: [{component: Tag, operator: remove, predicate: {path: a}}]\nfieldOverrider: [{fieldPath: a, yaml: [{subPath: b, operator: remove}]}]",
			want: []string{
				`plaintext[0].path: Invalid value: "spec.replicas": want a JSON pointer, such as /spec/replicas`,
				`plaintext[1].path: Invalid value: "/a~2"`, `plaintext[2].path: Invalid value: ""`, `imageOverrider[0].predicate.path: Invalid value: "a"`,
				`fieldOverrider[0].fieldPath: Invalid value: "a"`, `fieldOverrider[0].yaml[0].subPath: Invalid value: "b"`,
			},
		},
		"values": {
			overriders: "plaintext: [{path: /a, operator: remove, value: 1}, {path: /a, operator: add}]\n" +
				"imageOverrider: [{component: Tag, operator: remove, value: a}, {component: Tag, operator: add}]\n" +
				"fieldOverrider: [{fieldPath: /a, json: [{subPath: /b, operator: replace}], yaml: [{subPath: /b, operator: remove, value: a}]}]",
			want: []string{
				`plaintext[0].value: Forbidden: operator remove takes no value: leave it out`, `plaintext[1].value: Required value: operator add needs a value`,
				`imageOverrider[0].value: Forbidden`, `imageOverrider[1].value: Required value: operator add needs a value`,
				`fieldOverrider[0].yaml: Forbidden: json and yaml exclude each other`, `fieldOverrider[0].json[0].value: Required value`, `fieldOverrider[0].yaml[0].value: Forbidden`,
			},
		},
		"images": {
			overriders: "imageOverrider: [{component: Registry, operator: replace, value: 'https://a'}, {component: Repository, operator: replace, value: A/b}, {component: Tag, operator: add, value: ' '}]",
			want: []string{
				`imageOverrider[0].value: Invalid value: "https://a": it cannot be a part of an image's name, here the registry`,
				`imageOverrider[1].value: Invalid value: "A/b": it cannot be a part of an image's name, here the repository`,
				`imageOverrider[2].value: Invalid value: " ": it cannot be a part of an image's name, here the tag`,
			},
		},
		"containers and metadata": {
			overriders: "commandOverrider: [{containerName: '', operator: add}]\nargsOverrider: [{containerName: '', operator: add}]\n" +
				"labelsOverrider: [{operator: add, value: {a: '!'}}]\nannotationsOverrider: [{operator: add, value: {'!': a}}]",
			want: []string{
				`commandOverrider[0].containerName: Required value`, `argsOverrider[0].containerName: Required value`,
				`labelsOverrider[0].value: Invalid value: "!"`, `annotationsOverrider[0].value: Invalid value: "!"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			overriders := policyv1alpha1.Overriders{}
			if err := sigsyaml.UnmarshalStrict([]byte(c.overriders), &overriders); err != nil {
				t.Fatal(err)
			}
			rules := &policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: overriders}}}
			_, wrong := checkOverride("shop", rules)
			told(t, nil, wrong, nil, within("spec.overrideRules[0].overriders.", c.want))
			warnings, wrong := checkOverride("shop", &policyv1alpha1.OverrideSpec{Overriders: overriders})
			told(t, warnings, wrong, []string{"spec.overriders is deprecated: use overrideRules"}, within("spec.overriders.", c.want))
		})
	}
}

// within puts the path before each of the fields.
// Whoever may write policies cannot have the hub look at one operation after the other
// for ages, however they are spread over rules and texts.
func TestOperationsOfAPolicyAreCounted(t *testing.T) {
	remove := policyv1alpha1.JSONPatchOperation{SubPath: "/a", Operator: policyv1alpha1.OverriderOpRemove}
	inText := policyv1alpha1.FieldOverrider{FieldPath: "/a", JSON: slices.Repeat([]policyv1alpha1.JSONPatchOperation{remove}, 999)}
	rule := policyv1alpha1.RuleWithCluster{Overriders: policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{inText}}}
	spec := policyv1alpha1.OverrideSpec{OverrideRules: slices.Repeat([]policyv1alpha1.RuleWithCluster{rule}, 5)}
	_, wrong := checkOverride("shop", &spec)
	told(t, nil, wrong, nil, nil)
	spec.OverrideRules = append(spec.OverrideRules, policyv1alpha1.RuleWithCluster{Overriders: policyv1alpha1.Overriders{
		Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "no pointer", Operator: policyv1alpha1.OverriderOpRemove}},
	}})
	_, wrong = checkOverride("shop", &spec)
	told(t, nil, wrong, nil, []string{"spec: Too many: 5001: must have at most 5000 items"})
}

// Each object of the namespace, and each cluster, is compared with all terms.
func TestTermsOfAPolicyAreCounted(t *testing.T) {
	many := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: make([]string, 501)}}}
	clusters := policyv1alpha1.ClusterAffinity{LabelSelector: many}
	_, wrong := checkOverride("shop", &policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{TargetCluster: &clusters}, {TargetCluster: &clusters}}})
	told(t, nil, wrong, nil, []string{"spec: Too many: 1002: must have at most 1000 items"})
	selectors := []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", LabelSelector: many}, {APIVersion: "v1", Kind: "ConfigMap", LabelSelector: many}}
	wrong = checkSelectors("shop", selectors, field.NewPath("spec", "resourceSelectors"))
	told(t, nil, wrong, nil, []string{"spec.resourceSelectors: Too many: 1002"})
	placement := policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{
		{AffinityName: "a", ClusterAffinity: clusters, OverflowAffinities: []policyv1alpha1.OverflowClusterAffinity{{AffinityName: "b", ClusterAffinity: clusters}}},
	}}
	wrong = checkPlacement(&placement, field.NewPath("spec", "placement"))
	told(t, nil, wrong, nil, []string{"spec.placement: Too many: 1002"})
}

// TestDependentOverridesAreCounted is about names by each of which the hub finds a policy.
func TestDependentOverridesAreCounted(t *testing.T) {
	spec := &policyv1alpha1.PropagationSpec{
		ResourceSelectors:  []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}},
		DependentOverrides: make([]string, claims.DependentOverridesMax),
	}
	_, wrong := checkPropagation("shop", spec)
	told(t, nil, wrong, nil, nil)
	spec.DependentOverrides = append(spec.DependentOverrides, "one-more")
	_, wrong = checkPropagation("shop", spec)
	told(t, nil, wrong, nil, []string{"spec.dependentOverrides: Too many: 257: must have at most 256 items: the policy waits for each of them"})
}

// TestAwaitedNamesAreShort is about names that each object would tell of that the policy selects.
func TestAwaitedNamesAreShort(t *testing.T) {
	longest := strings.Repeat("x", 253)
	spec := &policyv1alpha1.PropagationSpec{
		ResourceSelectors:  []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}},
		DependentOverrides: []string{"images", longest},
		SchedulePriority:   &policyv1alpha1.SchedulePriority{PriorityClassName: longest},
	}
	_, wrong := checkPropagation("shop", spec)
	told(t, nil, wrong, nil, nil)
	spec.SchedulePriority.PriorityClassName += "x"
	_, wrong = checkPropagation("shop", spec)
	told(t, nil, wrong, nil, []string{"spec.schedulePriority.priorityClassName: Too long: may not be more than 253 bytes: no PriorityClass has such a name"})
	spec.DependentOverrides[1] += "x"
	_, wrong = checkPropagation("shop", spec)
	told(t, nil, wrong, nil, []string{"spec.dependentOverrides[1]: Too long: may not be more than 253 bytes: no override policy has such a name"})
}

func within(path string, fields []string) []string {
	var all []string
	for _, f := range fields {
		all = append(all, path+f)
	}
	return all
}

func TestClustersOfOverridePolicies(t *testing.T) {
	affinity := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "!"}}}
	warnings, wrong := checkOverride("shop", &policyv1alpha1.OverrideSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", Namespace: "other"}},
		TargetCluster:     affinity,
	})
	told(t, warnings, wrong, []string{"spec.targetCluster is deprecated: use overrideRules"},
		[]string{"spec.resourceSelectors[0].namespace: Invalid value", "spec.targetCluster.labelSelector: Invalid value"})
	warnings, wrong = checkOverride("", &policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{TargetCluster: affinity}}})
	told(t, warnings, wrong, nil, []string{"spec.overrideRules[0].targetCluster.labelSelector: Invalid value"})
}

func TestNobodyIsAskedWhetherClustersKeepWhatTheyHave(t *testing.T) {
	keeps := true
	if diff := cmp.Diff(sentContent(&policyv1alpha1.PropagationPolicy{}), sentContent(&policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{PreserveResourcesOnDeletion: &keeps}})); diff != "" {
		t.Errorf("the operator, which may not read what policies send, could not keep it in the clusters:\n%s", diff)
	}
}

func TestPartialPlacementIsTrueOrFalse(t *testing.T) {
	selectors := []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}
	for value, want := range map[string][]string{
		"true": nil, "false": nil,
		"yes": {`metadata.annotations[fleet.capstan.io/partial-placement]: Unsupported value: "yes": supported values: "true", "false"`},
		"":    {`metadata.annotations[fleet.capstan.io/partial-placement]: Unsupported value: ""`},
	} {
		meta := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{fleetv1alpha1.AnnotationPartialPlacement: value}}
		own := &policyv1alpha1.PropagationPolicy{ObjectMeta: meta, Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: selectors}}
		wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: meta, Spec: own.Spec}
		for _, p := range []policyv1alpha1.Policy{own, wide} {
			warnings, wrong := checkPolicy(p)
			told(t, warnings, wrong, nil, want)
			plain := deepcopy.CopyObject(p)
			plain.SetAnnotations(nil)
			if value != "" && cmp.Equal(sentContent(plain), sentContent(p)) {
				t.Errorf("who sets it to %q is not asked about it", value)
			}
		}
	}
}

func TestWhatIsAskedAboutOfAnUpdate(t *testing.T) {
	calls := 0
	v := &objectValidator[*policyv1alpha1.PropagationPolicy]{
		label: policyv1alpha1.LabelPropagationPolicyID, content: func(p *policyv1alpha1.PropagationPolicy) any { return p.Spec },
		check: func(*policyv1alpha1.PropagationPolicy) (admission.Warnings, fieldMistakes) { calls++; return nil, nil },
	}
	policy := func(id, scheduler string, going bool) *policyv1alpha1.PropagationPolicy {
		p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: id}}}
		p.Spec.SchedulerName = scheduler
		if going {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for name, c := range map[string]struct {
		old, object *policyv1alpha1.PropagationPolicy
		refused     bool
		calls       int
	}{
		"nothing new":      {old: policy("1", "a", false), object: policy("1", "a", false)},
		"the spec":         {old: policy("1", "a", false), object: policy("1", "b", false), calls: 1},
		"a policy's end":   {old: policy("1", "a", true), object: policy("1", "b", true)},
		"another ID":       {old: policy("1", "a", false), object: policy("2", "a", false), refused: true},
		"no ID any more":   {old: policy("1", "a", false), object: policy("", "a", false), refused: true},
		"the first ID":     {old: policy("", "a", false), object: policy("2", "a", false)},
		"an ID at the end": {old: policy("1", "a", true), object: policy("2", "a", true), refused: true},
	} {
		calls = 0
		_, err := v.ValidateUpdate(t.Context(), c.old, c.object)
		if apierrors.IsInvalid(err) != c.refused || calls != c.calls {
			t.Errorf("%s: got %v after %d checks", name, err, calls)
		}
	}
}
