// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// The tables of api_*_test.go have what the APIs of the kinds document, written by hand: golden files repeat what the
// scripts return, right or wrong. A row names its kind without the group, as no two kinds share a name.

// operationsOf returns the operations of a kind.
func operationsOf(t *testing.T, kind string) interpret.CustomOperations {
	t.Helper()
	return shipped.NewThirdPartyKinds().Operations(versionOf(t, kind)).Custom
}

func versionOf(t *testing.T, kind string) schema.GroupVersionKind {
	t.Helper()
	all := shipped.ThirdPartyGroupKinds()
	i := slices.IndexFunc(all, func(k schema.GroupKind) bool { return k.Kind == kind })
	if i < 0 {
		t.Fatalf("no kind %s is shipped", kind)
	}
	customization, err := shipped.ReadCustomization(all[i])
	expect.NoError(t, err)
	return customized.LuaCustomizationOf(customization).Kind
}

// object returns an object of a kind by what it has beside its name, namespace and generation.
func object(t *testing.T, kind, text string) m {
	t.Helper()
	version := versionOf(t, kind)
	raw, err := yaml.YAMLToJSONStrict([]byte("apiVersion: " + version.GroupVersion().String() + "\nkind: " + kind + "\n" + text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	u := &unstructured.Unstructured{} // which decodes numbers as those of objects are
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return patched(m{"metadata": m{"name": "a", "namespace": "shop", "generation": int64(3)}}, u.Object)
}

// lacks returns how an object differs from one with these fields; null is a field that it must not have.
func lacks(fields, object m) string { return cmp.Diff(patched(object, fields), object) }

// TestEachOperationHasATable finds operations that no test has a table for: each with one calls eachKindHasARow.
func TestEachOperationHasATable(t *testing.T) {
	t.Parallel()
	tables := []lua.Operation{
		lua.ReplicaResource, lua.ReplicaRevision, lua.ComponentResource, lua.Retention,
		lua.StatusReflection, lua.StatusAggregation, lua.HealthInterpretation, lua.DependencyInterpretation,
	}
	for _, operation := range lua.AllOperations() {
		if !slices.Contains(tables, operation) && len(kindsWith(t, operation)) > 0 {
			t.Errorf("%s has no table", operation)
		}
	}
}

// eachKindHasARow finds kinds of which a table has to say what their operation does, and does not.
func eachKindHasARow[R row](t *testing.T, operation lua.Operation, rows map[string]R) {
	t.Helper()
	with, listed := kindsWith(t, operation), kindsOf(rows)
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		has := slices.Contains(with, kind.Kind)
		switch operation {
		case lua.StatusAggregation: // which is the usual one without a script
			has = true
		case lua.StatusReflection: // which is all of the status without a script
			has = has || slices.Contains(listed, kind.Kind)
		}
		if has != slices.Contains(listed, kind.Kind) {
			t.Errorf("%s of %s: is there: %t; has a row: %t", operation, kind, has, !has)
		}
	}
}

// kindsWith returns the kinds that have a script for an operation.
func kindsWith(t *testing.T, operation lua.Operation) []string {
	t.Helper()
	var kinds []string
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		customization, err := shipped.ReadCustomization(kind)
		expect.NoError(t, err)
		if _, has := customized.LuaCustomizationOf(customization).Scripts[operation]; has {
			kinds = append(kinds, kind.Kind)
		}
	}
	return kinds
}

// row is one of a table.
type row interface{ of() string }

func kindsOf[R row](rows map[string]R) []string {
	var kinds []string
	for _, r := range rows {
		kinds = append(kinds, r.of())
	}
	return kinds
}
