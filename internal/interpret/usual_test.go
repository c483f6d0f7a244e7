// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// pod is a template of pods.
const pod = `{spec: {nodeSelector: {disk: ssd}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}}`

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	expect.NoError(t, err)
	object := map[string]any{}
	expect.NoError(t, json.Unmarshal(content, &object))
	return object
}

// operator is a kind of somebody else for which nobody has written anything.
type operator struct {
	template string
	// replicas is how many pods its template asks for, -1 if its shape does not say.
	replicas int32
	// well and unwell are statuses.
	well   string
	unwell []string
}

// TestKindsOfTheUsualShapeNeedNoCustomization: their pods are counted and divided, they
// are judged in their clusters, and their templates say what clusters report.
func TestKindsOfTheUsualShapeNeedNoCustomization(t *testing.T) {
	t.Parallel()
	chain := shipped.BuiltinChain()
	// These are kinds that many clusters have. Their generation in clusters is 2.
	ready := func(status, more string) string {
		return `{` + more + ` conditions: [{type: Ready, status: "` + status + `", reason: R, message: m}]}`
	}
	operators := map[string]operator{
		"Rollout of Argo": {
			`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {replicas: 4, template: ` + pod + `}}`, 4,
			`{replicas: 4, readyReplicas: 4, availableReplicas: 4, updatedReplicas: 4, phase: Healthy, conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True"}]}`,
			[]string{
				`{replicas: 4, readyReplicas: 2, availableReplicas: 2, phase: Progressing, conditions: [{type: Available, status: "False"}]}`,
				`{replicas: 4, readyReplicas: 3, availableReplicas: 3, conditions: [{type: Available, status: "True"}]}`,
			},
		},
		"Cluster of CloudNativePG": {
			`{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, spec: {instances: 3}}`, -1,
			ready("True", "instances: 3, readyInstances: 3, phase: Cluster in healthy state,"),
			[]string{ready("False", "instances: 3, readyInstances: 1,")},
		},
		"Kafka of Strimzi": {
			`{apiVersion: kafka.strimzi.io/v1beta2, kind: Kafka, spec: {kafka: {replicas: 3}, zookeeper: {replicas: 3}}}`, -1,
			ready("True", "observedGeneration: 2, clusterId: k,"),
			[]string{ready("False", "observedGeneration: 2,"), ready("True", "observedGeneration: 1,")},
		},
		"KafkaNodePool of Strimzi, whose template is of other things": {
			`{apiVersion: kafka.strimzi.io/v1beta2, kind: KafkaNodePool, spec: {replicas: 3, template: {pod: {metadata: {labels: {a: b}}}}}}`, -1,
			`{observedGeneration: 2, replicas: 3}`,
			[]string{`{observedGeneration: 1, replicas: 3}`},
		},
		"Certificate of cert-manager": {
			`{apiVersion: cert-manager.io/v1, kind: Certificate, spec: {secretName: tls}}`, -1,
			`{notAfter: "2026-05-01T00:00:00Z", revision: 1, conditions: [{type: Ready, status: "True", observedGeneration: 2}]}`,
			[]string{`{conditions: [{type: Ready, status: "True", observedGeneration: 1}]}`, `{conditions: [{type: Ready, status: "False", observedGeneration: 2}, {type: Issuing, status: "True"}]}`},
		},
		"ScaledObject of KEDA": {
			`{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {minReplicaCount: 1, maxReplicaCount: 9}}`, -1,
			`{hpaName: a, conditions: [{type: Ready, status: "True"}, {type: Active, status: "False"}, {type: Fallback, status: "False"}]}`,
			[]string{`{conditions: [{type: Ready, status: "False"}]}`, `{conditions: [{type: Ready, status: Unknown}]}`},
		},
		"MachineDeployment of Cluster API, whose template is of machines": {
			`{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, spec: {replicas: 3, template: {spec: {bootstrap: {}, clusterName: a}}}}`, -1,
			ready("True", "observedGeneration: 2, replicas: 3, readyReplicas: 3,"),
			[]string{ready("True", "observedGeneration: 2, replicas: 3, readyReplicas: 1,")},
		},
		"Service of Knative, which scales itself": {
			`{apiVersion: serving.knative.dev/v1, kind: Service, spec: {template: ` + pod + `}}`, -1,
			ready("True", "observedGeneration: 2, url: http://a,"),
			[]string{ready("False", "observedGeneration: 2,"), ready("Unknown", "observedGeneration: 2,")},
		},
		"ServiceMonitor of Prometheus, which has no status": {
			`{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, spec: {selector: {}}}`, -1, `{}`, nil,
		},
		"Prometheus, whose pods it makes itself": {
			`{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, spec: {replicas: 2}}`, -1,
			`{replicas: 2, availableReplicas: 2, updatedReplicas: 2, conditions: [{type: Available, status: "True", observedGeneration: 2}, {type: Reconciled, status: "True", observedGeneration: 2}]}`,
			[]string{`{replicas: 2, availableReplicas: 1, conditions: [{type: Available, status: Degraded, observedGeneration: 2}]}`},
		},
		"RabbitmqCluster, whose conditions have names of their own": {
			`{apiVersion: rabbitmq.com/v1beta1, kind: RabbitmqCluster, spec: {replicas: 3}}`, -1,
			`{observedGeneration: 2, conditions: [{type: AllReplicasReady, status: "True"}, {type: ReconcileSuccess, status: "True"}]}`,
			[]string{`{observedGeneration: 1, conditions: [{type: AllReplicasReady, status: "True"}]}`},
		},
		"Elasticsearch, whose status says it in a word": {
			`{apiVersion: elasticsearch.k8s.elastic.co/v1, kind: Elasticsearch, spec: {nodeSets: [{name: a, count: 3}]}}`, -1,
			`{observedGeneration: 2, availableNodes: 3, health: green, phase: Ready}`,
			[]string{`{observedGeneration: 1, health: yellow, phase: ApplyingChanges}`},
		},
		"a game server fleet, whose replicas are no number": {
			`{apiVersion: example.com/v1, kind: Fleet, spec: {replicas: 10%, template: ` + pod + `}}`, -1, `{}`, nil,
		},
	}
	for name, of := range operators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := fields.With(parse(t, of.template), int64(5), "metadata", "generation")
			divides(t, chain, template, of.replicas)
			inCluster := func(status string) *unstructured.Unstructured {
				object := fields.With(template, int64(2), "metadata", "generation")
				object = fields.With(object, "5", "metadata", "annotations", "resourcetemplate.karmada.io/generation")
				return &unstructured.Unstructured{Object: fields.With(object, parse(t, status), "status")}
			}
			verdict := func(status, want string) {
				if got, err := chain.InterpretHealth(inCluster(status)); got != want || err != nil {
					t.Errorf("%s: %s, %v; want %s", status, got, err, want)
				}
			}
			verdict(of.well, interpret.Healthy)
			for _, status := range of.unwell {
				verdict(status, interpret.Unhealthy)
			}
			aggregates(t, chain, template, inCluster(of.well))
		})
	}
}

// divides checks how many replicas a template has, and that a share of them changes
// nothing else.
func divides(t *testing.T, chain interpret.Chain, template map[string]any, want int32) {
	t.Helper()
	object := &unstructured.Unstructured{Object: template}
	replicas, needs, has, err := chain.GetReplicas(object)
	if has != (want >= 0) || has && (replicas != want || needs == nil || needs.NodeSelector["disk"] != "ssd") || err != nil {
		t.Errorf("it has %d replicas (%t) with %+v, %v; want %d", replicas, has, needs, err, want)
	}
	revised, err := chain.ReviseReplicas(object, 7)
	expected := template
	if want >= 0 {
		expected = fields.With(template, int64(7), "spec", "replicas")
	}
	if diff := cmp.Diff(expected, revised.Object); diff != "" || err != nil {
		t.Errorf("revised: %v %s", err, diff)
	}
}

// aggregates checks that two clusters that do well make a template that does.
func aggregates(t *testing.T, chain interpret.Chain, template map[string]any, object *unstructured.Unstructured) {
	t.Helper()
	reported, err := chain.ReflectStatus(object)
	expect.NoError(t, err)
	status, _, err := chain.AggregateStatus(&unstructured.Unstructured{Object: template}, []interpret.ClusterItem{
		{Cluster: "a", Status: reported, Applied: true, Health: interpret.Healthy}, {Cluster: "b", Status: reported, Applied: true, Health: interpret.Healthy},
	})
	expect.NoError(t, err)
	if _, has := fields.Int(reported, "observedGeneration"); has && status["observedGeneration"] != int64(5) {
		t.Errorf("observedGeneration is %v, want that of the template", status["observedGeneration"])
	}
	if n, has := fields.Int(reported, "availableReplicas"); has && status["availableReplicas"] != 2*n {
		t.Errorf("%v replicas are available, want %d", status["availableReplicas"], 2*n)
	}
	for _, c := range fields.Conditions(map[string]any{"status": reported}) {
		if got := fields.ConditionOf(map[string]any{"status": status}, c.Type); got.Status != c.Status {
			t.Errorf("condition %s is %q, want %s", c.Type, got.Status, c.Status)
		}
	}
}

// TestTheShapeSaysNothingOfKindsThatSomebodyKnows: who says how many pods there are,
// or which parts, has said it all.
func TestTheShapeSaysNothingOfKindsThatSomebodyKnows(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: parse(t, `{apiVersion: example.com/v1, kind: Thing, spec: {replicas: 3, workers: 5, template: `+pod+`}}`)}
	kind := object.GroupVersionKind()
	for name, known := range map[string]interpret.Operations{
		"replicas by a customization": {Custom: interpret.CustomOperations{Replicas: func(map[string]any) (int32, *interpret.Requirements, error) { return 5, nil, nil }}},
		"parts":                       {Components: func(map[string]any) []interpret.Component { return nil }},
	} {
		chain := interpret.Chain{layer{kind: known}}
		if replicas, _, _, err := chain.GetReplicas(object); replicas == 3 || err != nil {
			t.Errorf("%s: spec.replicas counts, %v", name, err)
		}
		if revised, err := chain.ReviseReplicas(object, 7); err != nil || fields.Get(revised.Object, "spec", "replicas") != int64(3) {
			t.Errorf("%s: spec.replicas is revised, %v", name, err)
		}
	}
	if replicas, _, has, _ := (interpret.Chain{}).GetReplicas(object); !has || replicas != 3 {
		t.Errorf("nobody knows it: it has %d replicas, %t", replicas, has)
	}
	if _, _, has, _ := (interpret.Chain{}).GetReplicas(nil); has {
		t.Error("nothing has replicas")
	}
}
