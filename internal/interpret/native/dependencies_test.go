// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/testing/build"
)

// needed writes dependencies of v1 in namespace ns, such as "Secret/a".
func needed(texts ...string) []interpret.Dependency {
	var all []interpret.Dependency
	for _, text := range texts {
		kind, name, _ := strings.Cut(text, "/")
		all = append(all, interpret.Dependency{APIVersion: "v1", Kind: kind, Namespace: "ns", Name: name})
	}
	return all
}

const allNeeds = `{
  serviceAccountName: robot,
  serviceAccount: robot,
  imagePullSecrets: [{name: pull}, odd, {name: 5}],
  initContainers: [{envFrom: [{configMapRef: {name: init}}, {secretRef: {name: init}}]}],
  ephemeralContainers: [{env: [{name: x, valueFrom: {secretKeyRef: {name: debug, key: k}}}]}],
  containers: [
    {env: [{name: a, value: b}, {name: c, valueFrom: {configMapKeyRef: {name: env}}}, {name: d, valueFrom: {secretKeyRef: {name: env}}}, {valueFrom: {fieldRef: {fieldPath: x}}}]},
    {env: [{valueFrom: {configMapKeyRef: {name: env}}}], envFrom: text},
  ],
  volumes: [
    {name: v1, configMap: {name: volume}}, {name: v2, secret: {secretName: volume}}, {name: data, persistentVolumeClaim: {claimName: disk}}, {name: v4, emptyDir: {}},
    {name: v5, projected: {sources: [{configMap: {name: projected}}, {secret: {name: projected}}, {serviceAccountToken: {path: x}}, {downwardAPI: {}}]}},
    {csi: {nodePublishSecretRef: {name: csi}}}, {azureFile: {secretName: azure}}, {cephfs: {secretRef: {name: cephfs}}}, {cinder: {secretRef: {name: cinder}}},
    {flexVolume: {secretRef: {name: flex}}}, {iscsi: {secretRef: {name: iscsi}}}, {rbd: {secretRef: {name: rbd}}}, {scaleIO: {secretRef: {name: scale}}}, {storageos: {secretRef: {name: os}}},
    {secret: text}, 7,
  ],
}`

func TestDependencies(t *testing.T) {
	t.Parallel()
	all := needed(
		"ConfigMap/env", "ConfigMap/init", "ConfigMap/projected", "ConfigMap/volume",
		"Secret/azure", "Secret/cephfs", "Secret/cinder", "Secret/csi", "Secret/debug", "Secret/env", "Secret/flex", "Secret/init",
		"Secret/iscsi", "Secret/os", "Secret/projected", "Secret/pull", "Secret/rbd", "Secret/scale", "Secret/volume",
		"ServiceAccount/robot", "PersistentVolumeClaim/disk",
	)
	const meta = `metadata: {name: x, namespace: ns}, `
	pods := `spec: {template: {spec: ` + allNeeds + `}}}`
	for name, test := range map[string]struct {
		object string
		want   []interpret.Dependency
	}{
		"a Deployment":            {`{apiVersion: apps/v1, kind: Deployment, ` + meta + pods, all},
		"a ReplicaSet":            {`{apiVersion: apps/v1, kind: ReplicaSet, ` + meta + pods, all},
		"a DaemonSet":             {`{apiVersion: apps/v1, kind: DaemonSet, ` + meta + pods, all},
		"a ReplicationController": {`{apiVersion: v1, kind: ReplicationController, ` + meta + pods, all},
		"a StatefulSet":           {`{apiVersion: apps/v1, kind: StatefulSet, ` + meta + pods, all},
		"a Job":                   {`{apiVersion: batch/v1, kind: Job, ` + meta + pods, all},
		"a CronJob":               {`{apiVersion: batch/v1, kind: CronJob, ` + meta + `spec: {jobTemplate: {` + pods + `}}`, all},
		"a Pod":                   {`{apiVersion: v1, kind: Pod, ` + meta + `spec: ` + allNeeds + `}`, all},
		"a StatefulSet that makes its claims": {
			`{apiVersion: apps/v1, kind: StatefulSet, ` + meta + `spec: {volumeClaimTemplates: [{metadata: {name: data}}, odd],
			template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: other, persistentVolumeClaim: {claimName: other}}]}}}}`,
			needed("PersistentVolumeClaim/other"),
		},
		"the default account": {`{apiVersion: v1, kind: Pod, ` + meta + `spec: {serviceAccountName: default}}`, nil},
		"odd":                 {`{apiVersion: apps/v1, kind: Deployment, ` + meta + `spec: {template: {spec: [1]}}}`, nil},
		"an account":          {`{apiVersion: v1, kind: ServiceAccount, ` + meta + `secrets: [{name: token}], imagePullSecrets: [{name: b}, {name: a}, odd]}`, needed("Secret/a", "Secret/b")},
		"an Ingress": {
			`{apiVersion: networking.k8s.io/v1, kind: Ingress, ` + meta + `spec: {tls: [{hosts: [h]}, {secretName: b}, {secretName: a}, {secretName: b}, 1]}}`, needed("Secret/a", "Secret/b"),
		},
		"an import": {
			`{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, ` + meta + `spec: {}}`,
			append(needed("Service/derived-x"), interpret.Dependency{
				APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: "ns",
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/service-name": "derived-x"}},
			}),
		},
		"an import without a name": {`{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: 1}}`, nil},
		"a Service":                {`{apiVersion: v1, kind: Service, ` + meta + `spec: {selector: {a: b}}}`, nil},
		"an autoscaler":            {`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, ` + meta + `spec: {scaleTargetRef: {kind: Deployment, name: x}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := chain().GetDependencies(build.ParseObject(t, test.object))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestRetained(t *testing.T) {
	t.Parallel()
	const retain = `, metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}}`
	for text, want := range map[string]string{
		`{apiVersion: apps/v1, kind: Deployment` + retain:                                                                     "spec/replicas",
		`{apiVersion: apps/v1, kind: StatefulSet` + retain:                                                                    "spec/replicas",
		`{apiVersion: apps/v1, kind: ReplicaSet` + retain:                                                                     "spec/replicas",
		`{apiVersion: v1, kind: ReplicationController` + retain:                                                               "spec/replicas",
		`{apiVersion: example.com/v1, kind: Thing` + retain:                                                                   "spec/replicas",
		`{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "false"}}}`: "",
		`{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: true}}}`:    "",
		`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}`:                                                        "",
		`{apiVersion: batch/v1, kind: Job}`: "spec/selector spec/template/metadata/labels/controller-uid spec/template/metadata/labels/batch.kubernetes.io/controller-uid " +
			"spec/template/metadata/labels/job-name spec/template/metadata/labels/batch.kubernetes.io/job-name",
		`{apiVersion: batch/v1, kind: Job, spec: {manualSelector: true}}`:           "",
		`{apiVersion: v1, kind: Pod}`:                                               "spec/nodeName spec/serviceAccountName spec/serviceAccount",
		`{apiVersion: v1, kind: Service}`:                                           "spec/clusterIP spec/clusterIPs spec/healthCheckNodePort",
		`{apiVersion: v1, kind: PersistentVolumeClaim}`:                             "spec/volumeName",
		`{apiVersion: v1, kind: PersistentVolume}`:                                  "spec/claimRef",
		`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token}`: "data",
		`{apiVersion: v1, kind: Secret, type: Opaque}`:                              "",
		`{apiVersion: example.com/v1, kind: Thing}`:                                 "",
	} {
		var got []string
		for _, path := range chain().RetainedFieldPaths(build.ParseObject(t, text)) {
			got = append(got, strings.Join(path, "/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: want %q, got %q", text, want, got)
		}
	}
}
