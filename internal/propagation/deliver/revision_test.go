// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// source returns what the work of cluster a is made of, with other replicas and
// annotations of the template.
func source(t *testing.T, replicas int64, annotations map[string]string) Source {
	t.Helper()
	b, object := &workv1alpha2.ResourceBinding{}, &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(template), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(object.Object, replicas, "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(annotations)
	b.Spec.Replicas, b.Spec.Clusters = int32(replicas), []workv1alpha2.TargetCluster{{Name: "a", Replicas: int32(replicas)}}
	return Source{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.New()}}
}

// named returns what names a source: of the object, and of the cluster.
func named(t *testing.T, s Source) string {
	t.Helper()
	even, err := s.Even()
	if err != nil {
		t.Fatal(err)
	}
	revisions, err := Revisions(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(even.Object, revisions)
}

// TestReplicasAreNoChange has an object as kubectl and a lazy policy leave it.
func TestReplicasAreNoChange(t *testing.T) {
	want := named(t, source(t, 5, nil))
	for name, annotations := range map[string]map[string]string{
		"nothing is noted":     nil,
		"kubectl has noted it": {"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"replicas":7}}`},
		"a lazy policy has":    {"fleet.capstan.io/template": "abc"},
	} {
		if got := named(t, source(t, 7, annotations)); got != want {
			t.Errorf("%s: it is a change:\n%s\n%s", name, want, got)
		}
	}
	if got := named(t, source(t, 5, map[string]string{"mine": "1"})); got == want {
		t.Error("another annotation is a change")
	}
}
