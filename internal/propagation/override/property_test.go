// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// anything is overriders that are right, wrong, or odd.
func anything(r *rand.Rand) policyv1alpha1.Overriders {
	op := func() policyv1alpha1.OverriderOperator {
		return pick(r, policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpRemove, policyv1alpha1.OverriderOpReplace)
	}
	path := func() string {
		return pick(r, "/spec/replicas", "/spec/paused", "/metadata/labels", "/metadata/labels/app", "/metadata/name", "/metadata/annotations",
			"/spec/template/spec/containers/0", "/spec/template/spec/containers/-", "/spec/template/spec/containers", "/spec/template/spec/containers/-1/image", "/spec/template/spec/containers/1/image", "/spec", "/kind", "/x~1y/z")
	}
	value := func() policyv1alpha1.JSON {
		return text(pick(r, `1`, `"x:1"`, `{}`, `[]`, `{"name":"web","image":"x"}`, `true`, ``, `{"a":"b"}`))
	}
	var o policyv1alpha1.Overriders
	for range r.IntN(3) {
		o.Plaintext = append(o.Plaintext, policyv1alpha1.PlaintextOverrider{Path: path(), Operator: op(), Value: value()})
	}
	if r.IntN(3) == 0 {
		o.ImageOverrider = append(o.ImageOverrider, policyv1alpha1.ImageOverrider{
			Component: pick(r, policyv1alpha1.ImageRegistry, policyv1alpha1.ImageRepository, policyv1alpha1.ImageTag), Operator: op(), Value: pick(r, "x", "", "a.b", "1"),
		})
	}
	if r.IntN(3) == 0 {
		o.CommandOverrider = append(o.CommandOverrider, policyv1alpha1.CommandArgsOverrider{ContainerName: pick(r, "web", "side", "init"), Operator: pick(r, policyv1alpha1.ListOverriderOpAdd, policyv1alpha1.ListOverriderOpRemove), Value: []string{pick(r, "-v", "x")}})
	}
	if r.IntN(3) == 0 {
		o.LabelsOverrider = append(o.LabelsOverrider, policyv1alpha1.LabelAnnotationOverrider{Operator: op(), Value: map[string]string{pick(r, "app", "b"): "x"}})
	}
	if r.IntN(4) == 0 {
		o.FieldOverrider = append(o.FieldOverrider, policyv1alpha1.FieldOverrider{FieldPath: path(), YAML: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: op(), Value: value()}}})
	}
	return o
}

// Whatever the policies say: the object stays as it is, the result is the same
// each time and no other object, and what was recorded is what was applied.
func TestApplyProperties(t *testing.T) {
	applied := 0
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 1))
		var policies []policyv1alpha1.OverridePolicy
		for i := range r.IntN(4) {
			var all []policyv1alpha1.RuleWithCluster
			for range r.IntN(3) {
				all = append(all, inNames(anything(r), pick(r, []string{}, []string{"paris"}, []string{"rome"})...))
			}
			policies = append(policies, own("shop", fmt.Sprint(i), rules(all...)))
		}
		object := web()
		chosen := selected(t, object, nil, policies...)
		changed, record, err := chosen.ApplyToObject(object, &view.Cluster{Name: "paris"})
		if diff := cmp.Diff(web().Object, object.Object); diff != "" {
			t.Fatalf("seed %d: the object itself was changed (-before +after):\n%s", seed, diff)
		}
		again, _, errAgain := chosen.ApplyToObject(object, &view.Cluster{Name: "paris"})
		if fmt.Sprint(err) != fmt.Sprint(errAgain) || !cmp.Equal(changed, again) {
			t.Fatalf("seed %d: %v, %v; again: %v, %v", seed, changed, err, again, errAgain)
		}
		if err != nil {
			continue
		}
		applied++
		if changed.GetName() != "web" || changed.GetNamespace() != "shop" || changed.GetKind() != "Deployment" {
			t.Fatalf("seed %d: it is another object: %v", seed, changed)
		}
		redone := reapply(t, object, record)
		if diff := cmp.Diff(changed.Object, redone.Object); diff != "" {
			t.Fatalf("seed %d: what was recorded makes another object (-applied +recorded):\n%s", seed, diff)
		}
	}
	if applied < 80 {
		t.Errorf("only %d of the tries were applied", applied)
	}
}

// Operations that are applied together do what they do one after the other, and the same
// one fails.
func TestOperationsTogetherAreOperationsOneByOne(t *testing.T) {
	applied, failed := 0, 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		var operations []policyv1alpha1.JSONPatchOperation
		for range 1 + r.IntN(6) {
			operations = append(operations, policyv1alpha1.JSONPatchOperation{
				SubPath:  pick(r, "/a", "/a/b", "/a/b/c", "/l", "/l/0", "/l/1", "/l/-", "/l/-1", "/l/0/a", "/n", "/n/a", "/x~1y", "/", "/a/"),
				Operator: pick(r, policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpRemove, policyv1alpha1.OverriderOpReplace),
				Value:    text(pick(r, `1.50`, `"<x>"`, `{}`, `[]`, `null`, `{"b":{"c":1}}`, `[{"a":1},null]`, `{"b":null}`, `{ "b" : [ 1 ] }`)),
			})
		}
		document := []byte(pick(r, `{"z":1e2,"a":{"b":{"c":"<&>"}},"l":[{"a":1},2],"n":null}`, `{"a":1,"l":[]}`, `[1,{"a":2}]`, `{}`, `null`, `{"l":null,"a":[1]}`))
		together, err := patchDocument(document, operations, "json", &effortBudget{left: effortMax})
		one, wantErr := document, error(nil)
		for i, o := range operations {
			if one, wantErr = patchDocument(one, []policyv1alpha1.JSONPatchOperation{o}, "json", &effortBudget{left: effortMax}); wantErr != nil {
				wantErr = fmt.Errorf("json[%d]%s", i, strings.TrimPrefix(wantErr.Error(), "json[0]"))
				break
			}
		}
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && string(together) != string(one) {
			t.Fatalf("seed %d: %s: %v: together %s, %v; one by one %s, %v", seed, document, operations, together, err, one, wantErr)
		}
		if err != nil {
			failed++
		} else {
			applied++
		}
	}
	if applied < 500 || failed < 500 {
		t.Errorf("only %d of the tries were applied, and %d failed", applied, failed)
	}
}

// reapply makes the changes that the record has.
func reapply(t *testing.T, object *unstructured.Unstructured, record AppliedOverrides) *unstructured.Unstructured {
	t.Helper()
	var items []appliedRule
	if record.Overrides != "" {
		if err := json.Unmarshal([]byte(record.Overrides), &items); err != nil {
			t.Fatal(err)
		}
	}
	var all []policyv1alpha1.RuleWithCluster
	for _, i := range items {
		all = append(all, inNames(i.Overriders))
	}
	changed, err := overridden(t, object, policyv1alpha1.Overriders{})
	if len(all) > 0 {
		changed, _, err = selected(t, object, nil, own("shop", "all", rules(all...))).ApplyToObject(object, &view.Cluster{Name: "rome"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// Paths and documents are the user's: whatever they are, there is a result or an
// error.
func FuzzPatch(f *testing.F) {
	f.Add("/data/a", "add", `1`, `{"a":1}`)
	f.Add("/data/a/-1", "remove", ``, `[1,2]`)
	f.Add("/~0~1~2//", "replace", `null`, "a: &x [*x]")
	f.Add("", "add", `[`, "null")
	f.Fuzz(func(t *testing.T, path, operator, value, document string) {
		object := web()
		object.Object["data"] = map[string]any{"a": document}
		op := policyv1alpha1.OverriderOperator(operator)
		change := []policyv1alpha1.JSONPatchOperation{{SubPath: path, Operator: op, Value: text(value)}}
		for _, o := range []policyv1alpha1.Overriders{
			plain(policyv1alpha1.PlaintextOverrider{Path: path, Operator: op, Value: text(value)}),
			{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/a", JSON: change}}},
			{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/a", YAML: change}}},
			{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: path, YAML: change}}},
			{ImageOverrider: []policyv1alpha1.ImageOverrider{{Predicate: &policyv1alpha1.ImagePredicate{Path: path}, Component: "Tag", Operator: op, Value: value}}},
		} {
			changed, err := overridden(t, object, o)
			if (err == nil) != (changed != nil) {
				t.Errorf("%v, %v", changed, err)
			}
			if err == nil {
				if _, err := changed.MarshalJSON(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// FuzzImage checks that what is not changed stays as it was written.
func FuzzImage(f *testing.F) {
	f.Add("quay.io:5000/a/b:1@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Add("LOCALHOST/a")
	f.Add("a//b")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseImage(text)
		if err == nil && parsed.String() != text {
			t.Errorf("%q became %q (%+v)", text, parsed, parsed)
		}
	})
}
