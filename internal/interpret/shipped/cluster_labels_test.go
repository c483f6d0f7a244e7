// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"

	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestWhatAClusterAddsToAPodTemplateStays applies an object as agents do, what its kind retains
// included, to the part of an API server that knows whose a field is. OpenKruise's definitions
// leave the types in pod templates open. What the template changes arrives, and what it drops goes.
func TestWhatAClusterAddsToAPodTemplateStays(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := managedfieldstest.NewTestFieldManager(managedfields.NewDeducedTypeConverter(), versionOf(t, kind))
			live := func() *unstructured.Unstructured {
				is, ok := server.Live().(*unstructured.Unstructured)
				if !ok {
					t.Fatalf("the server has a %T", server.Live())
				}
				return is
			}
			apply := func(metadata string) {
				t.Helper()
				desired := &unstructured.Unstructured{Object: object(t, kind, "spec: {template: {metadata: "+metadata+"}}")}
				applied, err := shipped.BuiltinChain().RetainFields(desired, live())
				if err == nil {
					err = server.Apply(applied, "agent", true)
				}
				expect.NoError(t, err)
			}
			apply("{labels: {app: web, tier: front}, annotations: {team: shop}}")
			added := object(t, kind, "spec: {template: {metadata: {labels: {app: web, tier: front, mesh: linked}, annotations: {team: shop, restartedAt: today}}}}")
			expect.NoError(t, server.Update(&unstructured.Unstructured{Object: added}, "theirs"))
			apply("{labels: {app: shop}, annotations: {team: shop}}")
			got, _, _ := unstructured.NestedMap(live().Object, "spec", "template", "metadata")
			want := m{"labels": m{"app": "shop", "mesh": "linked"}, "annotations": m{"team": "shop", "restartedAt": "today"}}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
