// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/capstan-io/capstan/internal/interpret/expression"
)

// inputs is how many inputs each expression is tried with.
const inputs = 300

// call is an expression with functions that we have instead of those of
// Kubernetes, or of CEL's library of strings.
type call struct {
	text   string
	result *cel.Type
	// but says when and why the results may differ.
	but []exception
}

type exception struct {
	when   func(in map[string]any) bool
	reason string
}

// variables are those of the expressions.
func variables() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable("s", cel.StringType), cel.Variable("t", cel.StringType), cel.Variable("u", cel.StringType), cel.Variable("n", cel.IntType),
		cel.Variable("texts", cel.ListType(cel.StringType)), cel.Variable("ints", cel.ListType(cel.IntType)), cel.Variable("doubles", cel.ListType(cel.DoubleType)),
	}
}

func TestFunctionsGiveWhatThoseOfKubernetesDo(t *testing.T) {
	upstream, err := cel.NewEnv(append([]cel.EnvOption{ext.Strings(ext.StringsVersion(4)), library.Lists(), library.Regex()}, variables()...)...)
	if err != nil {
		t.Fatal(err)
	}
	own, err := expression.NewEnvironment(variables()...)
	if err != nil {
		t.Fatal(err)
	}
	var list []call
	add := func(result *cel.Type, but []exception, texts ...string) {
		for _, text := range texts {
			list = append(list, call{text, result, but})
		}
	}
	add(cel.BoolType, nil, "ints.isSorted()", "doubles.isSorted()", "texts.isSorted()", "s.matches(t)", "matches(s, t)")
	add(cel.IntType, nil,
		"ints.sum()", "ints.min()", "ints.max()", "ints.indexOf(n)", "ints.lastIndexOf(n)", "texts.indexOf(s)", "texts.lastIndexOf(s)",
		"s.indexOf(t)", "s.indexOf(t, n)", "s.lastIndexOf(t)", "s.lastIndexOf(t, n)")
	add(cel.DoubleType, []exception{{
		func(in map[string]any) bool { return len(in["doubles"].([]float64)) == 0 },
		"the type of the items is not known, so that the sum of none is the integer 0",
	}}, "doubles.sum()")
	add(cel.DoubleType, nil, "doubles.min()", "doubles.max()")
	add(cel.StringType, nil,
		"texts.min()", "texts.max()", "texts.join()", "texts.join(s)", "s.replace(t, u)", "s.replace(t, u, n)", "s.find(t)",
		`"%s and %d of %s".format([s, n, texts])`)
	add(cel.ListType(cel.StringType), nil, "s.findAll(t)", "s.findAll(t, n)")
	for _, c := range list {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			ast, issues := upstream.Compile(c.text)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			their, err := upstream.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			our, err := own.CompileExpression(c.text, c.result)
			if err != nil {
				t.Fatal(err)
			}
			c.compare(t, func(in map[string]any) (ref.Val, error) {
				value, _, err := their.Eval(in)
				return value, err
			}, func(in map[string]any) (ref.Val, error) {
				value, _, err := our.EvaluateProgram(t.Context(), in)
				return value, err
			})
		})
	}
}

// compare gives both the same inputs, which are the same in each run.
func (c call) compare(t *testing.T, theirs, ours func(map[string]any) (ref.Val, error)) {
	t.Helper()
	source := rand.New(rand.NewPCG(1, 2))
	differed := make([]bool, len(c.but))
	for range inputs {
		in := input(source)
		want, wantErr := theirs(in)
		got, gotErr := ours(in)
		if wantErr != nil && gotErr != nil || wantErr == nil && gotErr == nil && got.Equal(want) == types.True && got.Type() == want.Type() {
			continue
		}
		i := slices.IndexFunc(c.but, func(e exception) bool { return e.when(in) })
		if i < 0 {
			t.Fatalf("with %#v: got %v (%v), Kubernetes gives %v (%v)", in, got, gotErr, want, wantErr)
		}
		differed[i] = true
	}
	for i, did := range differed {
		if !did {
			t.Errorf("the difference %q does not occur: take it out", c.but[i].reason)
		}
	}
}

// input makes small values, so that texts are found in each other. Some have
// characters of several bytes, and some patterns are not valid.
func input(source *rand.Rand) map[string]any {
	text := func(most int) string {
		var b strings.Builder
		for range source.IntN(most + 1) {
			b.WriteString([]string{"a", "b", "é", "世", ".", "*", "[", "(a|b)"}[source.IntN(8)])
		}
		return b.String()
	}
	texts, ints, doubles := []string{}, []int64{}, []float64{}
	for range source.IntN(5) {
		texts, ints = append(texts, text(2)), append(ints, source.Int64N(7)-2)
		doubles = append(doubles, float64(source.IntN(8))/4)
	}
	return map[string]any{
		"s": text(6), "t": text(2), "u": text(2), "n": source.Int64N(8) - 2, "texts": texts, "ints": ints, "doubles": doubles,
	}
}

// TestListsWithoutASchema: of what an object has, no type is known before the
// evaluation, and a list can have items of several types.
func TestListsWithoutASchema(t *testing.T) {
	object := cel.Variable("list", cel.DynType)
	upstream, err := cel.NewEnv(library.Lists(), object)
	if err != nil {
		t.Fatal(err)
	}
	own, err := expression.NewEnvironment(object)
	if err != nil {
		t.Fatal(err)
	}
	const (
		mixed  = "texts and numbers have no order, and Kubernetes goes by the type of the first item"
		single = "a single item is compared with nothing, so that it needs no order"
	)
	for _, c := range []struct {
		list []any
		// but is why the functions that compare items differ; empty if none does.
		but string
	}{
		{list: []any{}},
		{list: []any{int64(2), int64(1)}},
		{list: []any{0.5, 1.5}},
		{list: []any{int64(1), 0.5}},
		{list: []any{0.5, int64(1)}},
		{list: []any{"a", "b"}},
		{list: []any{true, false}},
		{[]any{"a", int64(1)}, mixed},
		{[]any{nil}, single},
		{[]any{map[string]any{"a": int64(1)}}, single},
		{[]any{[]any{}}, single},
	} {
		for text, compares := range map[string]bool{
			"list.min()": true, "list.max()": true, "list.isSorted()": true,
			"list.sum()": false, "list.indexOf(1)": false, "list.lastIndexOf('a')": false, "list.indexOf(0.5)": false,
		} {
			ast, issues := upstream.Compile(text)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			their, err := upstream.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			want, _, wantErr := their.Eval(map[string]any{"list": c.list})
			program, err := own.CompileExpression("dyn("+text+")", cel.DynType)
			if err != nil {
				t.Fatal(err)
			}
			got, _, gotErr := program.EvaluateProgram(t.Context(), map[string]any{"list": c.list})
			same := (wantErr == nil) == (gotErr == nil) && (wantErr != nil || got.Equal(want) == types.True)
			if same == (compares && c.but != "") {
				t.Errorf("%s of %v: got %v (%v), Kubernetes gives %v (%v); the difference on purpose is %q", text, c.list, got, gotErr, want, wantErr, c.but)
			}
		}
	}
}
