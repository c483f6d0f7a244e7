// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"crypto/sha256"
	"encoding/hex"
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
func source(t *testing.T, replicas int64, annotations map[string]string) WorkSource {
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
	return WorkSource{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.NewKubernetesKinds()}}
}

// named returns what names a source: of the object, and of the cluster.
func named(t *testing.T, s WorkSource) string {
	t.Helper()
	even, err := s.SingleReplicaObject()
	if err != nil {
		t.Fatal(err)
	}
	revisions, err := ClusterRevisions(s)
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

// TestNullsStayInRevisions has a template as API servers before 1.34 serve it. Works have no nulls;
// revisions that were stored before works lost them do.
func TestNullsStayInRevisions(t *testing.T) {
	s := source(t, 1, nil)
	if err := unstructured.SetNestedField(s.Object.Object, nil, "spec", "template", "metadata", "creationTimestamp"); err != nil {
		t.Fatal(err)
	}
	even, err := s.SingleReplicaObject()
	if err != nil {
		t.Fatal(err)
	}
	if _, has, err := unstructured.NestedFieldNoCopy(even.Object, "spec", "template", "metadata", "creationTimestamp"); !has || err != nil {
		t.Fatalf("the object has no null: %v, %v", even.Object, err)
	}
	s.setConflictResolution(even)
	text, err := even.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	revisions, err := ClusterRevisions(s)
	if want := hex.EncodeToString(hash[:16]); err != nil || revisions["a"] != want {
		t.Errorf("the revision is %q, want %q, which is of\n%s\n%v", revisions["a"], want, text, err)
	}
}
