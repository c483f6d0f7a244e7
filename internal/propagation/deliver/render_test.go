// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/fleet/view"
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
	return view.New(clusters...)
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
		"nowhere":          {"{replicas: 5}", nil},
		"divided":          {"{replicas: 5, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort", "b: 2, abort"}},
		"as a whole":       {"{components: [{name: x, replicas: 2}, {name: y, replicas: 3}], clusters: [{name: a, components: [{name: x, replicas: 2}, {name: y, replicas: 3}]}]}", []string{"a: 5, abort"}},
		"not a workload":   {"{clusters: [{name: a}]}", []string{"a: 5, abort"}},
		"overwritten":      {"{replicas: 5, conflictResolution: Overwrite, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, overwrite"}},
		"stays at the end": {"{replicas: 5, preserveResourcesOnDeletion: true, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort, Orphan"}},
		"goes at the end":  {"{replicas: 5, preserveResourcesOnDeletion: false, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort"}},
		"suspended":        {"{replicas: 5, suspension: {dispatching: true}, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort, suspended true", "b: 2, abort, suspended true"}},
		"suspended in one": {"{replicas: 5, suspension: {dispatchingOnClusters: {clusterNames: [b]}}, clusters: [{name: a, replicas: 3}, {name: b, replicas: 2}]}", []string{"a: 3, abort, suspended false", "b: 2, abort, suspended true"}},
		"not to be chosen": {"{replicas: 5, suspension: {scheduling: true}, clusters: [{name: a, replicas: 5}]}", []string{"a: 5, abort"}},
		"not divided yet":  {"{replicas: 5, clusters: [{name: a}, {name: b}]}", []string{"a: not decided", "b: not decided"}},
		"some have none":   {"{replicas: 5, clusters: [{name: a, replicas: 5}, {name: b}]}", []string{"a: 5, abort", "b: 0, abort"}},
		"others need it":   {"{replicas: 5, requiredBy: [{namespace: shop, name: db, clusters: [{name: b, replicas: 1}]}], clusters: [{name: a, replicas: 2}]}", []string{"a: 2, abort", "b: 5, abort"}},
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
			works, problems, err := Render(Source{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.New()}})
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
