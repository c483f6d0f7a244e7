// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// settings is an object with a text and a number.
func settings(text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"data": map[string]any{"text": text, "n": int64(0)},
	}}
}

func times[T any](n int, one T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}

// allocated is how many bytes it takes to override an object.
func allocated(t *testing.T, object *unstructured.Unstructured, o policyv1alpha1.Overriders) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := overridden(t, object, o); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A document is read and written once, not once for each operation.
func TestManyOperationsReadADocumentOnce(t *testing.T) {
	const operations = 200
	document := `{"a":0,"rest":"` + strings.Repeat("x", 300_000) + `"}`
	replace := policyv1alpha1.JSONPatchOperation{SubPath: "/a", Operator: policyv1alpha1.OverriderOpReplace, Value: text("1")}
	for name, overriders := range map[string]func(n int) policyv1alpha1.Overriders{
		"plaintext": func(n int) policyv1alpha1.Overriders { return plain(times(n, set("/data/n", "1"))...) },
		"json": func(n int) policyv1alpha1.Overriders {
			return policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/text", JSON: times(n, replace)}}}
		},
		"yaml": func(n int) policyv1alpha1.Overriders {
			return policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/text", YAML: times(n, replace)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, many := allocated(t, settings(document), overriders(1)), allocated(t, settings(document), overriders(operations))
			if many > one*10 {
				t.Errorf("%d operations take %d bytes of memory, %.0f times as much as one", operations, many, float64(many)/float64(one))
			}
		})
	}
}

// listOf is a YAML document with entries.
func listOf(entries int) string { return strings.Repeat(`- {"a": "xxxxxxxxxx"}`+"\n", entries) }

// What would take too long is refused, in whichever way it is written. Objects and what
// they may cost are a part here of what they are on a hub: work grows with them alike.
func TestTooMuchWorkIsRefused(t *testing.T) {
	const part, many = 128, 1000
	lists := settings("")
	lists.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": times[any](20_000/part, map[string]any{"name": "web", "image": "web"})}}}
	labelled := settings("")
	labels := map[string]any{}
	for i := range 50_000 / part {
		labels[fmt.Sprint(i)] = "x"
	}
	labelled.Object["metadata"].(map[string]any)["labels"] = labels
	big := listOf(50_000 / part)
	replace := policyv1alpha1.JSONPatchOperation{SubPath: "/0/a", Operator: policyv1alpha1.OverriderOpReplace, Value: text("1")}
	for name, c := range map[string]struct {
		object     *unstructured.Unstructured
		overriders policyv1alpha1.Overriders
	}{
		"plaintext":  {settings(big), plain(times(2*many, set("/data/n", "1"))...)},
		"yaml texts": {settings(big), policyv1alpha1.Overriders{FieldOverrider: times(many, policyv1alpha1.FieldOverrider{FieldPath: "/data/text", YAML: []policyv1alpha1.JSONPatchOperation{replace}})}},
		"images":     {lists, policyv1alpha1.Overriders{ImageOverrider: times(many, policyv1alpha1.ImageOverrider{Component: "Tag", Operator: "replace", Value: "1"})}},
		"arguments":  {lists, policyv1alpha1.Overriders{ArgsOverrider: times(many, policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "add", Value: times(many, "x")})}},
		"no such":    {lists, policyv1alpha1.Overriders{CommandOverrider: times(many, policyv1alpha1.CommandArgsOverrider{ContainerName: "none", Operator: "add", Value: []string{"x"}})}},
		"labels":     {labelled, policyv1alpha1.Overriders{LabelsOverrider: times(many, policyv1alpha1.LabelAnnotationOverrider{Operator: "add", Value: map[string]string{"a": "b"}})}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := overriddenWithin(t, c.object, c.overriders, effortMax/part)
			isTooMuch(t, err)
		})
	}
}

// The limit of a hub is there, too.
func TestTooMuchWorkForAHubIsRefused(t *testing.T) {
	_, err := overridden(t, settings(listOf(50_000)), plain(times(2_000, set("/data/n", "1"))...))
	isTooMuch(t, err)
}

func isTooMuch(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "OverridePolicy shop/one: spec.overrideRules[0].overriders.") || !strings.Contains(err.Error(), "more work than a hub does for one object") {
		t.Errorf("got %v, want that it is too much work", err)
	}
}
