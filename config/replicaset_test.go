// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Type All ignores maxFailures, so what there is to see is what the API server makes of it.
func TestWhatAReplicaSetKeepsOfARolloutToAll(t *testing.T) {
	hub, err := client.New(startHub(t), client.Options{})
	expect.NoError(t, err)
	const refusal = "rolloutStrategy.all.maxFailures"
	for name, c := range map[string]struct {
		all string
		// kept is the maxFailures of the object; nil if it is refused.
		kept any
	}{
		"nothing":             {"{}", int64(0)},
		"a number":            {"{maxFailures: 2}", int64(2)},
		"a percentage":        {"{maxFailures: 25%}", "25%"},
		"a word":              {"{maxFailures: many}", nil},
		"more than there are": {"{maxFailures: 101%}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := replicaSetTo(t, c.all)
			err := hub.Create(t.Context(), set, client.DryRunAll)
			if c.kept == nil {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), refusal) {
					t.Errorf("got %v, want a refusal with %s", err, refusal)
				}
				return
			}
			if err != nil {
				t.Fatalf("it is refused: %v", err)
			}
			refs, _, err := unstructured.NestedSlice(set.Object, "spec", "placementRefs")
			if err != nil || len(refs) != 1 {
				t.Fatalf("placementRefs are %v (%v)", refs, err)
			}
			got, _, err := unstructured.NestedFieldNoCopy(refs[0].(map[string]any), "rolloutStrategy", "all", "maxFailures")
			if err != nil || got != c.kept {
				t.Errorf("maxFailures is %v (%v), want %v", got, err, c.kept)
			}
		})
	}
}

// replicaSetTo returns a set that is rolled out to all clusters in the given way.
func replicaSetTo(t *testing.T, all string) *unstructured.Unstructured {
	t.Helper()
	set := &unstructured.Unstructured{}
	text := `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {namespace: default, name: web}
spec:
  placementRefs: [{name: everywhere, rolloutStrategy: {type: All, all: ` + all + `}}]
  manifestWorkTemplate: {workload: {manifests: []}}
`
	expect.NoError(t, yaml.Unmarshal([]byte(text), &set.Object))
	return set
}
