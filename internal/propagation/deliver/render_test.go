// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

const template = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, uid: u, generation: 4}
spec: {replicas: 5}
`

// accepted is a fleet of clusters that the hub has accepted.
func accepted(names ...string) view.Fleet {
	clusters := make([]view.Cluster, 0, len(names))
	for _, name := range names {
		clusters = append(clusters, view.Cluster{Name: name, Accepted: true})
	}
	return view.NewFleet(clusters...)
}

// told is what a work says: its replicas, what becomes of an object that is there
// already, whether it is not sent for now, and what becomes of it at the end.
func told(t *testing.T, work *workv1.ManifestWork) string {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	text := fmt.Sprintf("%s: %d, %s", work.Namespace, replicas, object.GetAnnotations()["work.karmada.io/conflict-resolution"])
	if suspended, said := work.Annotations[workv1.AnnotationSuspendDispatching]; said {
		text += ", suspended " + suspended
	}
	if work.Spec.DeleteOption != nil {
		text += ", " + string(work.Spec.DeleteOption.PropagationPolicy)
	}
	return text
}

// TestWorksSayWhatTheBindingSays has bindings of a Deployment with 5 replicas.
func TestWorksSayWhatTheBindingSays(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"nowhere":                              {"{replicas: 5}", nil},
		"divided":                              {"{replicas: 5, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort", "b: 2, abort"}},
		"as a whole":                           {"{components: [{name: x, replicas: 2}, {name: y, replicas: 3}], clusters: [{name: a, components: [{name: x, replicas: 2}, {name: y, replicas: 3}]}]}", []string{"a: 5, abort"}},
		"not a workload":                       {"{clusters: [{name: a}]}", []string{"a: 5, abort"}},
		"overwritten":                          {"{replicas: 5, conflictResolution: Overwrite, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, overwrite"}},
		"stays at the end":                     {"{replicas: 5, preserveResourcesOnDeletion: true, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort, Orphan"}},
		"goes at the end":                      {"{replicas: 5, preserveResourcesOnDeletion: false, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort"}},
		"suspended":                            {"{replicas: 5, suspension: {dispatching: true}, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort, suspended true", "b: 2, abort, suspended true"}},
		"suspended in one":                     {"{replicas: 5, suspension: {dispatchingOnClusters: {clusterNames: [b]}}, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort, suspended false", "b: 2, abort, suspended true"}},
		"suspended in one, and not everywhere": {"{replicas: 5, suspension: {dispatching: false, dispatchingOnClusters: {clusterNames: [b]}}, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort, suspended false", "b: 2, abort, suspended true"}},
		"not to be chosen":                     {"{replicas: 5, suspension: {scheduling: true}, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort"}},
		"not divided yet":                      {"{replicas: 5, clusters: [{name: a}, {name: b}]}", []string{"a: not decided", "b: not decided"}},
		"some have none":                       {"{replicas: 5, clusters: [{name: a, replicas: 5}, {name: b}]}", []string{"a: 5, abort", "b: 0, abort"}},
		"others need it":                       {"{replicas: 5, requiredBy: [{namespace: shop, name: db, clusters: [{name: b, replicas: 1}]}], clusters: [{name: a, replicas: 2}]}", []string{"a: 2, abort", "b: 5, abort"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, object := &workv1alpha2.ResourceBinding{}, &unstructured.Unstructured{}
			b.Namespace, b.Name = "shop", "web-deployment"
			b.Labels = map[string]string{workv1alpha2.LabelResourceBindingID: "an-id"}
			for text, into := range map[string]any{test.spec: &b.Spec, template: &object.Object} {
				if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
			works, problems, err := RenderWorks(WorkSource{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.NewKubernetesKinds()}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for cluster, problem := range problems {
				if !errors.Is(problem, errUndivided) {
					t.Fatal(problem)
				}
				got = append(got, cluster+": not decided")
			}
			for _, work := range works {
				got = append(got, told(t, work))
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("the works say %q, want %q", got, test.want)
			}
		})
	}
}

// TestWhereAnObjectIsFrom compares all labels and annotations that Karmada's clients read on
// an object in a cluster and on its work. The template was copied from a cluster.
func TestWhereAnObjectIsFrom(t *testing.T) {
	const copied = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  uid: u
  generation: 4
  labels:
    app: web
    %[1]s: policy-id
    work.karmada.io/permanent-id: other
    resourcebinding.karmada.io/permanent-id: other
    clusterresourcebinding.karmada.io/permanent-id: other
  annotations:
    %[2]s: sends
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    resourcebinding.karmada.io/name: other
    resourcebinding.karmada.io/namespace: other
    clusterresourcebinding.karmada.io/name: other
spec: {replicas: 5, template: {metadata: {labels: {app: web}}}}
`
	for name, test := range map[string]struct {
		namespace, policyLabel, policyAnnotation string
		label                                    map[string]string
		annotations                              map[string]string
	}{
		"of a namespace": {
			"shop", "propagationpolicy.karmada.io/permanent-id", "propagationpolicy.karmada.io/name",
			map[string]string{"resourcebinding.karmada.io/permanent-id": "an-id"},
			map[string]string{"resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "web-deployment"},
		},
		"of none": {
			"", "clusterpropagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/name",
			map[string]string{"clusterresourcebinding.karmada.io/permanent-id": "an-id"},
			map[string]string{"clusterresourcebinding.karmada.io/name": "web-deployment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b workv1alpha2.Binding = &workv1alpha2.ResourceBinding{}
			if test.namespace == "" {
				b = &workv1alpha2.ClusterResourceBinding{}
			}
			b.SetNamespace(test.namespace)
			b.SetName("web-deployment")
			b.SetLabels(map[string]string{idLabel(b): "an-id", test.policyLabel: "policy-id"})
			b.BindingSpec().Clusters = []workv1alpha2.TargetCluster{{Name: "a"}}
			object := &unstructured.Unstructured{}
			raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, copied, test.policyLabel, test.policyAnnotation))
			if err = errors.Join(err, object.UnmarshalJSON(raw)); err != nil {
				t.Fatal(err)
			}
			object.SetNamespace(test.namespace)
			works, problems, err := RenderWorks(WorkSource{Binding: b, Object: object, Fleet: accepted("a"), Chain: interpret.Chain{native.NewKubernetesKinds()}})
			if err != nil || len(problems) > 0 || len(works) != 1 {
				t.Fatal(works, problems, err)
			}
			work, sent := works["a"], &unstructured.Unstructured{}
			if err := sent.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
				t.Fatal(err)
			}
			id := workID("an-id", "a")
			onWork := map[string]string{"work.karmada.io/permanent-id": id, test.policyLabel: "policy-id"}
			onObject := map[string]string{
				"app": "web", "karmada.io/managed": "true", "work.karmada.io/permanent-id": id, test.policyLabel: "policy-id",
			}
			maps.Copy(onWork, test.label)
			maps.Copy(onObject, test.label)
			annotated := map[string]string{
				test.policyAnnotation: "sends", "work.karmada.io/conflict-resolution": "abort",
				"work.karmada.io/namespace": "karmada-es-a", "work.karmada.io/name": work.Name,
				"resourcetemplate.karmada.io/uid": "u", "resourcetemplate.karmada.io/generation": "4",
				"resourcetemplate.karmada.io/managed-annotations": "",
			}
			maps.Copy(annotated, test.annotations)
			annotated["resourcetemplate.karmada.io/managed-labels"] = strings.Join(slices.Sorted(maps.Keys(onObject)), ",")
			annotated["resourcetemplate.karmada.io/managed-annotations"] = strings.Join(slices.Sorted(maps.Keys(annotated)), ",")
			for of, diff := range map[string]string{
				"labels of the work":          cmp.Diff(onWork, work.Labels),
				"annotations of the work":     cmp.Diff(test.annotations, work.Annotations),
				"labels of the object":        cmp.Diff(onObject, sent.GetLabels()),
				"annotations of the object":   cmp.Diff(annotated, sent.GetAnnotations()),
				"what would restart its pods": cmp.Diff(object.Object["spec"], sent.Object["spec"]),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got):\n%s", of, diff)
				}
			}
		})
	}
}
