// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// likeADeployment says of another kind what native says of Deployments, so that
// the two can be compared.
const likeADeployment = `
metadata: {name: like-a-deployment}
spec:
  target: {apiVersion: example.com/v1, kind: Workload}
  customizations:
    statusReflection:
      luaScript: |
        function ReflectStatus(observedObj)
          local s = observedObj.status
          local annotations = observedObj.metadata.annotations or {}
          return {
            replicas = s.replicas, readyReplicas = s.readyReplicas, updatedReplicas = s.updatedReplicas,
            availableReplicas = s.availableReplicas, unavailableReplicas = s.unavailableReplicas, conditions = s.conditions,
            observedGeneration = s.observedGeneration, generation = observedObj.metadata.generation,
            resourceTemplateGeneration = tonumber(annotations["resourcetemplate.karmada.io/generation"]),
          }
        end
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          local s = observedObj.status
          return s.observedGeneration == observedObj.metadata.generation
            and s.updatedReplicas >= observedObj.spec.replicas and s.availableReplicas >= s.updatedReplicas
        end
    statusAggregation:
      luaScript: |
        function AggregateStatus(desiredObj, statusItems)
          local sum, observed = {replicas = 0, readyReplicas = 0, updatedReplicas = 0, availableReplicas = 0, unavailableReplicas = 0}, 0
          local generation = desiredObj.metadata.generation
          for _, item in ipairs(statusItems) do
            local s = item.status
            if s ~= nil then
              for name, value in pairs(sum) do
                sum[name] = value + (s[name] or 0)
              end
              if s.resourceTemplateGeneration == generation and s.generation == s.observedGeneration then
                observed = observed + 1
              end
            end
          end
          if observed == #statusItems then
            sum.observedGeneration = generation
          end
          desiredObj.status = sum
          return desiredObj
        end
`

// deployed is an object of either kind as a cluster has it.
func deployed(tb testing.TB, apiVersion, kind string) *unstructured.Unstructured {
	tb.Helper()
	text, err := sigsyaml.YAMLToJSON([]byte(`
kind: Workload
metadata:
  name: web
  namespace: shop
  generation: 3
  uid: 0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f
  labels: {app: web, karmada.io/managed: "true", work.karmada.io/permanent-id: 84c10d85-64c7-5ee3-a352-74dfe624cccd}
  annotations: {resourcetemplate.karmada.io/generation: "7", work.karmada.io/name: web-b4464cfbd, work.karmada.io/namespace: karmada-es-member1}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.com/web:1
        ports: [{containerPort: 8080}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: C, valueFrom: {configMapKeyRef: {name: web, key: c}}}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
        readinessProbe: {httpGet: {path: /ready, port: 8080}}
        volumeMounts: [{name: page, mountPath: /page}]
      volumes: [{name: page, configMap: {name: page}}]
status:
  observedGeneration: 3
  replicas: 3
  readyReplicas: 3
  updatedReplicas: 3
  availableReplicas: 3
  conditions:
  - {type: Available, status: "True", reason: MinimumReplicasAvailable, message: Deployment has minimum availability., lastUpdateTime: "2026-01-01T00:00:00Z"}
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable, message: ReplicaSet has successfully progressed., lastUpdateTime: "2026-01-01T00:00:00Z"}
`))
	expect.NoError(tb, err)
	o := &unstructured.Unstructured{}
	expect.NoError(tb, o.UnmarshalJSON(text))
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	return o
}

// BenchmarkStatus is what an agent does about a change of an object's status, and
// the hub about one of ten clusters: of a kind that is native, and of one that a
// customization says the same of.
func BenchmarkStatus(b *testing.B) {
	chain := interpret.Chain{lua.NewMachine(time.Now).NewLayer([]lua.Customization{LuaCustomizationOf(read(b, likeADeployment))}), native.NewKubernetesKinds()}
	for name, object := range map[string]*unstructured.Unstructured{
		"native": deployed(b, "apps/v1", "Deployment"), "customized": deployed(b, "example.com/v1", "Workload"),
	} {
		b.Run("agent/"+name, func(b *testing.B) {
			for b.Loop() {
				status, err := chain.ReflectStatus(object)
				verdict, failed := chain.InterpretHealth(object)
				if err != nil || failed != nil || verdict != interpret.Healthy || len(status) == 0 {
					b.Fatal(status, err, verdict, failed)
				}
			}
		})
		b.Run("hub/"+name, func(b *testing.B) {
			template := object.DeepCopy()
			template.SetGeneration(7)
			var items []interpret.ClusterItem
			for i := range 10 {
				status, err := chain.ReflectStatus(object)
				expect.NoError(b, err)
				items = append(items, interpret.ClusterItem{Cluster: fmt.Sprintf("member%d", i), Status: status, Applied: true, Health: interpret.Healthy})
			}
			for b.Loop() {
				status, changed, err := chain.AggregateStatus(template, items)
				if err != nil || !changed || status["readyReplicas"] != int64(30) {
					b.Fatal(status, changed, err)
				}
			}
		})
	}
}

// TestWhatCustomizationsHoldInMemory: scripts that nobody needs are not compiled.
// The limit is a mean over what fifty of them may hold.
func TestWhatCustomizationsHoldInMemory(t *testing.T) {
	const fifty, limit = 50, 2 << 20
	text := func(i int) string {
		return strings.ReplaceAll(likeADeployment, "Workload", fmt.Sprintf("Workload%d", i))
	}
	held := func(use int) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all []lua.Customization
		for i := range fifty {
			all = append(all, LuaCustomizationOf(read(t, text(i))))
		}
		chain := interpret.Chain{lua.NewMachine(time.Now).NewLayer(all), native.NewKubernetesKinds()}
		for i := range use {
			if _, err := chain.ReflectStatus(deployed(t, "example.com/v1", fmt.Sprintf("Workload%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(chain)
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	for _, used := range []int{0, 1, fifty} {
		got := held(used)
		t.Logf("%d customizations, of which %d are used: %d KiB", fifty, used, got>>10)
		if used <= 1 && got > limit {
			t.Errorf("%d customizations of which %d are used hold %d bytes, more than %d", fifty, used, got, limit)
		}
	}
}
