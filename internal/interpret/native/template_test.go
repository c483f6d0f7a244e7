// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// list returns a list of resources, such as "cpu", "1", "memory", "1Gi".
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	const job = "apiVersion: batch/v1\nkind: Job\n"
	for name, test := range map[string]struct {
		object string
		want   int32
		has    bool
	}{
		"a Deployment":                          {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}", 3, true},
		"a Deployment, by default":              {"apiVersion: apps/v1\nkind: Deployment", 1, true},
		"none wanted":                           {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 0}", 0, true},
		"a text":                                {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: '3'}", 1, true},
		"less than none":                        {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: -3}", 0, true},
		"more than there can be":                {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 99999999999}", 2147483647, true},
		"a spec that is a text":                 {"apiVersion: apps/v1\nkind: Deployment\nspec: all", 1, true},
		"a StatefulSet":                         {"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 2}", 2, true},
		"a ReplicaSet":                          {"apiVersion: apps/v1\nkind: ReplicaSet\nspec: {replicas: 2}", 2, true},
		"a ReplicationController":               {"apiVersion: v1\nkind: ReplicationController\nspec: {replicas: 2}", 2, true},
		"a Pod":                                 {"apiVersion: v1\nkind: Pod\nspec: {replicas: 2}", 1, true},
		"a Job":                                 {job, 1, true},
		"a Job that runs two at a time":         {job + "spec: {parallelism: 2, completions: 5}", 2, true},
		"a Job that needs fewer than it may":    {job + "spec: {parallelism: 5, completions: 2}", 2, true},
		"a Job that works off a queue":          {job + "spec: {parallelism: 5}", 5, true},
		"a Job that waits":                      {job + "spec: {parallelism: 0, completions: 2}", 0, true},
		"a DaemonSet":                           {"apiVersion: apps/v1\nkind: DaemonSet\nspec: {replicas: 2}", 0, false},
		"a CronJob":                             {"apiVersion: batch/v1\nkind: CronJob", 0, false},
		"a ConfigMap":                           {"apiVersion: v1\nkind: ConfigMap", 0, false},
		"a Deployment of somebody else's group": {"apiVersion: example.com/v1\nkind: Deployment\nspec: {replicas: 2}", 0, false},
	} {
		got, needs, has, err := chain().GetReplicas(build.ParseObject(t, test.object))
		if got != test.want || has != test.has || needs != nil || err != nil {
			t.Errorf("%s: want %d, %t, nil, got %d, %t, %v", name, test.want, test.has, got, has, needs)
		}
	}
	if _, _, has, _ := chain().GetReplicas(nil); has {
		t.Error("nothing has replicas")
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec string
		want *interpret.Requirements
	}{
		"none":    {`containers: [{name: a, image: x}]`, nil},
		"no spec": {``, nil},
		"containers": {
			`containers: [{resources: {requests: {cpu: 100m, memory: 1Gi}}}, {resources: {requests: {cpu: 1, example.com/gpu: 2}}}]`,
			&interpret.Requirements{Requests: list("cpu", "1100m", "memory", "1Gi", "example.com/gpu", "2")},
		},
		"limits without requests": {
			`containers: [{resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]`,
			&interpret.Requirements{Requests: list("cpu", "1", "memory", "1Gi")},
		},
		"an init container needs more than all others": {
			"containers: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 1}}}]\ninitContainers: [{resources: {requests: {cpu: 3}}}, {resources: {requests: {memory: 1Mi}}}]",
			&interpret.Requirements{Requests: list("cpu", "3", "memory", "1Mi")},
		},
		// Max(1 sidecar + 1, 1 sidecar + 2 init) = 3; the first init container runs before the sidecar.
		"a sidecar runs beside them": {
			"containers: [{resources: {requests: {cpu: 1}}}]\n" +
				"initContainers: [{resources: {requests: {cpu: 2}}}, {restartPolicy: Always, resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 2}}}]",
			&interpret.Requirements{Requests: list("cpu", "3")},
		},
		"overhead": {
			"containers: [{resources: {requests: {cpu: 1}}}]\noverhead: {cpu: 250m}", &interpret.Requirements{Requests: list("cpu", "1250m")},
		},
		"the pod as a whole": {
			"resources: {requests: {cpu: 2}, limits: {memory: 1Gi}}\ncontainers: [{resources: {requests: {cpu: 1}}}]",
			&interpret.Requirements{Requests: list("cpu", "2", "memory", "1Gi")},
		},
		"a limit of the pod where containers request": {
			"resources: {limits: {cpu: 4}}\ncontainers: [{resources: {requests: {cpu: 1}}}]", &interpret.Requirements{Requests: list("cpu", "1")},
		},
		"nodes": {
			"nodeSelector: {disk: ssd}\npriorityClassName: high\ntolerations: [{key: a, operator: Exists}]\n" +
				"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}",
			&interpret.Requirements{
				NodeSelector: map[string]string{"disk": "ssd"}, PriorityClassName: "high",
				Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
				HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
				}}},
			},
		},
		"a preferred affinity": {
			`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}`, nil,
		},
		"odd": {
			"nodeSelector: {disk: 1, zone: b}\npriorityClassName: 5\ntolerations: [1, {key: 2}, {key: a}]\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: 1}}}\n" +
				"containers: [1, {resources: 1}, {resources: {requests: {cpu: much, memory: -1, example.com/gpu: [1], storage: 1.5}}}]\ninitContainers: {a: 1}\noverhead: x",
			&interpret.Requirements{
				NodeSelector: map[string]string{"zone": "b"}, Tolerations: []corev1.Toleration{{Key: "a"}}, Requests: list("storage", "1500m"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, path := range map[string][]string{
				"apps/v1 Deployment": {"spec", "template", "spec"}, "apps/v1 StatefulSet": {"spec", "template", "spec"},
				"apps/v1 ReplicaSet": {"spec", "template", "spec"}, "batch/v1 Job": {"spec", "template", "spec"}, "v1 Pod": {"spec"},
			} {
				u := ofKind(kind)
				expect.NoError(t, unstructured.SetNestedField(u.Object, build.ParseObject(t, "kind: x\nspec:\n"+indented(test.spec)).Object["spec"], path...))
				if _, got, _, _ := chain().GetReplicas(u); !cmp.Equal(test.want, got) {
					t.Errorf("%s: %s", kind, cmp.Diff(test.want, got))
				}
			}
		})
	}
}

// change is an operation on an object, and what it makes of it.
type change struct {
	from, want string
}

func checkChanges(t *testing.T, operation func(*unstructured.Unstructured) *unstructured.Unstructured, changes map[string]change) {
	t.Helper()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := build.ParseObject(t, c.from)
			if diff := cmp.Diff(build.ParseObject(t, c.want).Object, operation(from).Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(build.ParseObject(t, c.from).Object, from.Object); diff != "" {
				t.Errorf("the object itself was changed: %s", diff)
			}
		})
	}
}

// revised revises, which cannot fail of the kinds of Kubernetes.
func revised(t *testing.T, chain interpret.Chain, u *unstructured.Unstructured, replicas int32) *unstructured.Unstructured {
	t.Helper()
	object, err := chain.ReviseReplicas(u, replicas)
	if err != nil {
		t.Error(err)
	}
	return object
}

func TestRevise(t *testing.T) {
	t.Parallel()
	checkChanges(t, func(u *unstructured.Unstructured) *unstructured.Unstructured { return revised(t, chain(), u, 7) }, map[string]change{
		"a Deployment":            {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3, paused: true}}", "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 7, paused: true}}"},
		"a StatefulSet":           {"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: '3'}}", "{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 7}}"},
		"a ReplicaSet":            {"{apiVersion: apps/v1, kind: ReplicaSet, spec: text}", "{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 7}}"},
		"a ReplicationController": {"{apiVersion: v1, kind: ReplicationController}", "{apiVersion: v1, kind: ReplicationController, spec: {replicas: 7}}"},
		"a Job":                   {"{apiVersion: batch/v1, kind: Job, spec: {completions: 9}}", "{apiVersion: batch/v1, kind: Job, spec: {completions: 9, parallelism: 7}}"},
		"a Pod":                   {"{apiVersion: v1, kind: Pod, spec: {a: 1}}", "{apiVersion: v1, kind: Pod, spec: {a: 1}}"},
		"a ConfigMap":             {"{apiVersion: v1, kind: ConfigMap}", "{apiVersion: v1, kind: ConfigMap}"},
	})
	if got := revised(t, chain(), nil, 1); got != nil {
		t.Errorf("want nothing of nothing, got %v", got)
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		"{apiVersion: batch/v1, kind: Job, spec: {completions: 9}}": 9, "{apiVersion: batch/v1, kind: Job, spec: {completions: -1}}": 0,
		"{apiVersion: batch/v1, kind: Job, spec: {completions: x}}": -1, "{apiVersion: batch/v1, kind: Job}": -1,
		"{apiVersion: apps/v1, kind: Deployment, spec: {completions: 9}}": -1,
	} {
		if got, has := chain().GetCompletions(build.ParseObject(t, text)); has != (want >= 0) || has && got != want {
			t.Errorf("%s: want %d, got %d, %t", text, want, got, has)
		}
	}
	checkChanges(t, func(u *unstructured.Unstructured) *unstructured.Unstructured { return chain().ReviseCompletions(u, 4) }, map[string]change{
		"a Job":                                 {"{apiVersion: batch/v1, kind: Job, spec: {completions: 9}}", "{apiVersion: batch/v1, kind: Job, spec: {completions: 4}}"},
		"a Job without a number":                {"{apiVersion: batch/v1, kind: Job, spec: {parallelism: 9}}", "{apiVersion: batch/v1, kind: Job, spec: {parallelism: 9}}"},
		"a Deployment with a field of the name": {"{apiVersion: apps/v1, kind: Deployment, spec: {completions: 9}}", "{apiVersion: apps/v1, kind: Deployment, spec: {completions: 9}}"},
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	checkChanges(t, chain().PruneObject, map[string]change{
		"what all kinds have": {
			`{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: b, labels: {c: d}, annotations: {e: f}, creationTimestamp: "2026-01-01T00:00:00Z", uid: g, resourceVersion: "1",
			generation: 1, managedFields: [{manager: h}], selfLink: i, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0, ownerReferences: [{}], finalizers: [j]}, spec: {status: k}, status: {l: m}}`,
			`{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: b, labels: {c: d}, annotations: {e: f}}, spec: {status: k}}`,
		},
		"odd metadata": {`{apiVersion: v1, kind: ConfigMap, metadata: text, status: text}`, `{apiVersion: v1, kind: ConfigMap, metadata: text}`},
		"a Deployment": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {deployment.kubernetes.io/revision: "3", a: b}}, spec: {replicas: 1}}`,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {a: b}}, spec: {replicas: 1}}`,
		},
		"a Job": {
			`{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}},
			template: {metadata: {labels: {a: b, controller-uid: u, batch.kubernetes.io/controller-uid: u, job-name: c}}}}}`,
			`{apiVersion: batch/v1, kind: Job, spec: {template: {metadata: {labels: {a: b, job-name: c}}}}}`,
		},
		"a Job without labels, which shows those of its pods": {
			`{apiVersion: batch/v1, kind: Job, metadata: {labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u, job-name: c}}, spec: {}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {labels: {job-name: c}}, spec: {}}`,
		},
		"a Job whose selector the user chose": {
			`{apiVersion: batch/v1, kind: Job, spec: {manualSelector: true, selector: {matchLabels: {controller-uid: a}}, template: {metadata: {labels: {controller-uid: a}}}}}`,
			`{apiVersion: batch/v1, kind: Job, spec: {manualSelector: true, selector: {matchLabels: {controller-uid: a}}, template: {metadata: {labels: {controller-uid: a}}}}}`,
		},
		"a Service": {
			`{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{nodePort: 30000}]}, status: {loadBalancer: {}}}`,
			`{apiVersion: v1, kind: Service, spec: {ports: [{nodePort: 30000}]}}`,
		},
		"a Service whose numbers the API server allocated": {
			`{apiVersion: v1, kind: Service, metadata: {managedFields: [{manager: kubectl-create, operation: Update, fieldsType: FieldsV1, fieldsV1: {f:spec: {f:type: {}, f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}}}}}},
			{manager: cloud, operation: Update, subresource: status, fieldsType: FieldsV1, fieldsV1: {f:spec: {f:healthCheckNodePort: {}}}}]},
			spec: {type: LoadBalancer, clusterIP: 10.0.0.1, healthCheckNodePort: 31000, ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80, protocol: TCP, nodePort: 30000}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {}, spec: {type: LoadBalancer, ports: [{port: 80, protocol: TCP}]}}`,
		},
		"a Service some of whose numbers a user wrote": {
			`{apiVersion: v1, kind: Service, metadata: {managedFields: [{manager: me, operation: Apply, fieldsType: FieldsV1, fieldsV1: {f:spec: {f:ipFamilyPolicy: {}, f:healthCheckNodePort: {}, f:ports: {'k:{"port":53,"protocol":"UDP"}': {.: {}, f:nodePort: {}}}}}}]},
			spec: {healthCheckNodePort: 31000, ipFamilies: [IPv4], ipFamilyPolicy: PreferDualStack, ports: [{port: 53, protocol: TCP, nodePort: 30000}, {port: 53, protocol: UDP, nodePort: 30001}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {}, spec: {healthCheckNodePort: 31000, ipFamilyPolicy: PreferDualStack, ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP, nodePort: 30001}]}}`,
		},
		"a Service whose number kubectl applied after it was allocated": {
			`{apiVersion: v1, kind: Service, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"ports":[{"port":80,"nodePort":30000},{"port":81}]}}'},
			managedFields: [{manager: kubectl, operation: Update, fieldsType: FieldsV1, fieldsV1: {f:spec: {f:type: {}}}}]}, spec: {ports: [{port: 80, protocol: TCP, nodePort: 30000}, {port: 81, nodePort: 30001}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"ports":[{"port":80,"nodePort":30000},{"port":81}]}}'}},
			spec: {ports: [{port: 80, protocol: TCP, nodePort: 30000}, {port: 81}]}}`,
		},
		"a Service with odd ports": {
			`{apiVersion: v1, kind: Service, metadata: {managedFields: [{manager: me, operation: Apply, fieldsType: FieldsV1, fieldsV1: {f:spec: {}}}, {manager: odd, fieldsV1: {x: y}}]}, spec: {ports: [text, {nodePort: 30000}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {}, spec: {ports: [text, {}]}}`,
		},
		"a headless Service": {
			`{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}`, `{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}`,
		},
		"a token": {
			`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, data: {token: a}, metadata: {annotations: {kubernetes.io/service-account.name: b, kubernetes.io/service-account.uid: c}}}`,
			`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: b}}}`,
		},
		"another Secret": {`{apiVersion: v1, kind: Secret, type: Opaque, data: {token: a}}`, `{apiVersion: v1, kind: Secret, type: Opaque, data: {token: a}}`},
		"a ServiceAccount": {
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-x}, {name: mine}, odd]}`,
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: mine}, odd]}`,
		},
		"a ServiceAccount with nothing else": {
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: a-token-x}]}`, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}`,
		},
		"a role whose rules are aggregated": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: a}}]}, rules: [{verbs: [get]}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: a}}]}}`,
		},
		"a role whose rules are not": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: null, rules: [{verbs: [get]}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: null, rules: [{verbs: [get]}]}`,
		},
		"a role of another API": {
			`{apiVersion: example.com/v1, kind: ClusterRole, aggregationRule: {}, rules: [{verbs: [get]}]}`,
			`{apiVersion: example.com/v1, kind: ClusterRole, aggregationRule: {}, rules: [{verbs: [get]}]}`,
		},
		"a claim that a controller bound": {
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b, pv.kubernetes.io/bind-completed: "yes", pv.kubernetes.io/bound-by-controller: "yes",
			volume.kubernetes.io/storage-provisioner: p, volume.beta.kubernetes.io/storage-provisioner: p}}, spec: {storageClassName: s, volumeName: pvc-1}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b}}, spec: {storageClassName: s}}`,
		},
		"a claim of a volume that the user chose": {
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b, pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: mine}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b}}, spec: {volumeName: mine}}`,
		},
		"a volume that a controller bound": {
			`{apiVersion: v1, kind: PersistentVolume, metadata: {annotations: {a: b, pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: c, uid: u}, capacity: {storage: 1Gi}}}`,
			`{apiVersion: v1, kind: PersistentVolume, metadata: {annotations: {a: b}}, spec: {capacity: {storage: 1Gi}}}`,
		},
		"a volume for a claim that the user chose": {
			`{apiVersion: v1, kind: PersistentVolume, spec: {claimRef: {namespace: n, name: c, uid: u, resourceVersion: "1"}}}`,
			`{apiVersion: v1, kind: PersistentVolume, spec: {claimRef: {namespace: n, name: c}}}`,
		},
		"a claim": {
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {volume.kubernetes.io/selected-node: n}}, spec: {volumeName: v}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {}}, spec: {volumeName: v}}`,
		},
	})
}

func TestCopiesShareNothing(t *testing.T) {
	t.Parallel()
	from := build.ParseObject(t, "{apiVersion: batch/v1, kind: Job, metadata: {labels: {a: b}}, spec: {completions: 1, template: {metadata: {labels: {a: b}}}}}")
	for _, c := range []*unstructured.Unstructured{
		revised(t, chain(), from, 1), chain().ReviseCompletions(from, 1), chain().PruneObject(from),
		revised(t, nil, from, 1), interpret.Chain(nil).PruneObject(from),
	} {
		c.SetLabels(nil)
		unstructured.RemoveNestedField(c.Object, "spec", "template", "metadata", "labels", "a")
	}
	want := build.ParseObject(t, "{apiVersion: batch/v1, kind: Job, metadata: {labels: {a: b}}, spec: {completions: 1, template: {metadata: {labels: {a: b}}}}}")
	if diff := cmp.Diff(want.Object, from.Object); diff != "" {
		t.Error(diff)
	}
}
