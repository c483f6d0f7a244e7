// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/testing/build"
)

// TestMerged is about what becomes of fields that the file does not have: that
// depends on who had them.
func TestMerged(t *testing.T) {
	live := build.ParseObject(t, "{apiVersion: v1, kind: Service, metadata: {name: web, labels: {app: web, by: hub}}, spec: {type: NodePort, clusterIP: 10.0.0.1}}")
	written := build.ParseObject(t, "{apiVersion: v1, kind: Service, metadata: {name: web, labels: {app: shop}}, spec: {ports: []}}")
	applied := live.DeepCopy()
	applied.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: `{"metadata":{"labels":{"app":"web"}},"spec":{"type":"NodePort"}}`})
	for name, test := range map[string]struct {
		live *unstructured.Unstructured
		want map[string]any
	}{
		"nobody knows who": {live, map[string]any{"ports": []any{}}},
		"applied before":   {applied, map[string]any{"ports": []any{}, "clusterIP": "10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mergeLocally(written, test.live)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"app": "shop", "by": "hub"}, got.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply}})
	patch, options, err := patchOf(written, live)
	if err != nil || string(patch.Type()) != "application/apply-patch+yaml" || len(options) != 2 {
		t.Errorf("what was applied on the server is changed by %v with %v: %v", patch, options, err)
	}
}

func TestChange(t *testing.T) {
	was := build.ParseObject(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: \"1\"}, data: {a: b}}")
	same := build.ParseObject(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: \"2\"}, data: {a: b}}")
	other := build.ParseObject(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: z}}, data: {a: b}}")
	for want, trial := range map[string]Trial{New: {Then: was}, Unchanged: {Now: was, Then: same}, Changed: {Now: was, Then: other}} {
		if got := trial.ChangeType(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestDefaults is about a user whose Placements the hub does not check: a weight
// that is not written is 1, and one that is 0 stays.
func TestDefaults(t *testing.T) {
	written := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: one}
spec:
  prioritizerPolicy:
    configurations:
    - scoreCoordinate: {builtIn: Steady}
    - {scoreCoordinate: {builtIn: Balance}, weight: 0}
  spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label}]}
`), written)
	if err != nil {
		t.Fatal(err)
	}
	if err := fillIn(written); err != nil {
		t.Fatal(err)
	}
	p := &clusterv1beta1.Placement{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, p); err != nil {
		t.Fatal(err)
	}
	policy := p.Spec.PrioritizerPolicy
	if policy.Mode != "Additive" || policy.Configurations[0].Weight != 1 || policy.Configurations[1].Weight != 0 {
		t.Errorf("the policy is %+v", policy)
	}
	if spread := p.Spec.SpreadPolicy.SpreadConstraints[0]; spread.MaxSkew != 1 || spread.WhenUnsatisfiable != "ScheduleAnyway" {
		t.Errorf("the spread constraint is %+v", spread)
	}
	if _, problems := placement.CompilePlacement(p, nil); len(problems) > 0 {
		t.Errorf("the defaults are not right: %v", problems)
	}
}
