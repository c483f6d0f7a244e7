// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/capstan-io/capstan/internal/interpret/expression"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// environment has the variable object.
func environment(t *testing.T) *expression.Environment {
	t.Helper()
	e, err := expression.NewEnvironment(cel.Variable("object", cel.DynType))
	expect.NoError(t, err)
	return e
}

// run evaluates an expression of any type for an object.
func run(t *testing.T, e *expression.Environment, text string, object any) (value any, cost uint64, err error) {
	t.Helper()
	program, err := e.CompileExpression(text, cel.DynType)
	if err != nil {
		// One whose type is known is compiled for that.
		if program, err = e.CompileExpression("dyn("+text+")", cel.DynType); err != nil {
			return nil, 0, err
		}
	}
	got, cost, err := program.EvaluateProgram(t.Context(), map[string]any{"object": object})
	if err != nil {
		return nil, cost, err
	}
	return got.Value(), cost, nil
}

func isUserError(err error) bool {
	var user *expression.UserError
	return errors.As(err, &user)
}

func TestWhatIsWrongWithAnExpression(t *testing.T) {
	t.Parallel()
	e := environment(t)
	list := func(items int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", items), ",") + "]" }
	entries := func(n int) string {
		text := "{"
		for i := range n {
			text += strconv.Itoa(i) + ":1,"
		}
		return strings.TrimSuffix(text, ",") + "}"
	}
	for name, c := range map[string]struct{ text, want string }{
		"no expression":                 {"object.", "line 1, column 8: Syntax error: no viable alternative at input '.'"},
		"another type":                  {"'a'", "it returns type string, not bool"},
		"a long list in a macro":        {"object.all(x, x in " + list(65) + ")", "a list inside a macro has 65 items; the limit is 64"},
		"a long map in a macro":         {"object.all(x, x in " + entries(17) + ")", "a map inside a macro has 17 entries; the limit is 16"},
		"a long list in one in a call":  {"size(object.map(x, " + list(65) + ")) > 0", "a list inside a macro has 65 items; the limit is 64"},
		"a long list in one in a field": {"object.map(x, {'a': " + list(65) + "})[0].a.size() > 0", "a list inside a macro has 65 items; the limit is 64"},
		"too long":                      {"'" + strings.Repeat("a", expression.BytesMax) + "' == 'a'", "expression code point size exceeds limit: size: 10249, limit 10240"},
	} {
		_, err := e.CompileExpression(c.text, cel.BoolType)
		if err == nil || !isUserError(err) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"a long list outside of macros": list(65) + ".size() == 65",
		"lists of that length inside":   "object.all(x, x in " + list(64) + " && x in " + entries(16) + ")",
	} {
		if _, err := e.CompileExpression(text, cel.BoolType); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileExpressionsEnd: what grows with the product of its arguments is refused
// before it is done.
func TestHostileExpressionsEnd(t *testing.T) {
	t.Parallel()
	e := environment(t)
	many := make([]any, 200)
	for i := range many {
		many[i] = "x"
	}
	long := strings.Repeat("a", 100_000)
	for name, c := range map[string]struct {
		text   string
		object any
		want   string
	}{
		"loops in loops":         {"object.all(a, object.all(b, object.all(c, c == 'x')))", many, "its macros visit more than 10000 items, the limit; visit fewer items"},
		"texts that grow":        {"object.replace('a', 'aaaaaaaaaa')", long, "the resulting string is longer than 262144 bytes, the limit"},
		"a joint that is long":   {"['a', 'b', 'c', 'd'].join(object)", long, "the resulting string is longer than 262144 bytes, the limit"},
		"a format that is long":  {"'%s%s%s'.format([object, object, object])", long, "the resulting string is longer than 262144 bytes, the limit"},
		"a pattern that repeats": {"object.matches('((a{30}){30}){30}')", "a", "the regular expression is not valid: error parsing regexp: invalid repeat count: `{30}`"},
		"one that repeats less":  {"object.matches('(a{30}){30}b{200}')", "a", "the regular expression repeats too much"},
		"a pattern that is long": {"object.matches('" + strings.Repeat("a", 1025) + "')", "a", "the regular expression is longer than 1024 bytes, the limit"},
		"both long":              {"object.matches('(a{20}){9}')", long + long, "the regular expression and the string are too long in combination"},
		"finds that look far":    {"object.findAll('a*b|a').size() > 0", long[:10_000], "findAll reads so much of the string again for each match that it takes too long"},
		"and again and again":    {"[1,2,3].exists(i, object.findAll('a*b|a').size() < i)", long[:10_000], "it costs more than 1000000 units, the limit"},
		"many finds":             {"object.findAll('a')", long, "findAll finds more than 10000 strings, the limit"},
		"a field that is not":    {"object.missing.deeper", map[string]any{}, "the object has no field missing; test for it with has()"},
	} {
		_, _, err := run(t, e, c.text, c.object)
		if err == nil || !isUserError(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestACostIsThatOfTheData: an expression costs more the more text and items it reads,
// also where its compiler does not know the types.
func TestACostIsThatOfTheData(t *testing.T) {
	t.Parallel()
	e := environment(t)
	texts := func(n int) any { return strings.Repeat("a", 1000*n) }
	lists := func(n int) any {
		items := make([]any, 100*n)
		for i := range items {
			items[i] = int64(i)
		}
		return items
	}
	maps := func(n int) any { return map[string]any{"inside": lists(n)} }
	for _, c := range []struct {
		text string
		data func(int) any
	}{
		{"object + 'a'", texts},
		{"object == object", texts},
		{"object.matches('b+')", texts},
		{"object.indexOf('b')", texts},
		{"object.replace('a', 'b')", texts},
		{"object.upperAscii()", texts},
		{"'b' in object", lists},
		{"object + [1]", lists},
		{"object == object", lists},
		{"object.sum()", lists},
		{"object.isSorted()", lists},
		{"object.all(x, x >= 0)", lists},
		{"sets.contains([1], object)", lists},
		{"object == object", maps},
		{"object in [object]", maps},
	} {
		_, small, err := run(t, e, c.text, c.data(1))
		_, large, also := run(t, e, c.text, c.data(10))
		if err != nil || also != nil || large-small < 900 { // ten bytes of text, or an item, are a unit
			t.Errorf("%s costs %d, and %d with ten times the data (%v, %v)", c.text, small, large, err, also)
		}
	}
	if _, _, err := run(t, e, "[1,2,3,4,5,6,7,8,9,10].all(i, object == object)", strings.Repeat("a", 2<<20)); err == nil ||
		err.Error() != "it costs more than 1000000 units, the limit; visit fewer items" {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestARegularExpressionCostsItsSteps compares ones of about the same length, of which one takes
// ten times the steps.
func TestARegularExpressionCostsItsSteps(t *testing.T) {
	t.Parallel()
	e := environment(t)
	text := strings.Repeat("a", 4000)
	for name, c := range map[string]struct{ little, much string }{
		"what is repeated counts as often":     {"object.matches('[a-z]{9}b')", "object.matches('[a-z]{99}b')"},
		"a find may read all of the rest":      {"object.findAll('a*b|a', 1)", "object.findAll('a*b|a', 20)"},
		"classes of Unicode have many ranges":  {"''.matches('[a-z]')", "''.matches('[\\\\pL]')"},
		"ranges of many characters are folded": {"''.matches('(?i)[a-z]')", "''.matches('(?i)[\\\\x{100}-\\\\x{1e000}]')"},
	} {
		_, little, err := run(t, e, c.little, text)
		_, much, also := run(t, e, c.much, text)
		if err != nil || also != nil || much < 4*little {
			t.Errorf("%s: %s costs %d, and %s %d (%v, %v)", name, c.little, little, c.much, much, err, also)
		}
	}
	if _, cost, err := run(t, e, "object.matches('[a-z]{30}[a-z]{30}b')", text); err != nil || cost < 4000*60/4 {
		t.Errorf("what takes 240,000 steps costs %d (%v)", cost, err)
	}
}

func TestACancelledContextEndsAnExpression(t *testing.T) {
	t.Parallel()
	program, err := environment(t).CompileExpression("object == 1", cel.BoolType)
	expect.NoError(t, err)
	why := errors.New("the agent stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, _, err := program.EvaluateProgram(ctx, map[string]any{"object": 1}); !errors.Is(err, context.Canceled) || isUserError(err) {
		t.Errorf("got %v, want that it was interrupted, which is not its author's fault", err)
	}
}

func TestFunctionsThatAreNotOfCEL(t *testing.T) {
	t.Parallel()
	e := environment(t)
	for text, want := range map[string]bool{
		"hasConditions({'conditions': [1]})":          true,
		"hasConditions({'conditions': []})":           false,
		"hasConditions({'conditions': 'many'})":       false,
		"hasConditions({})":                           false,
		"hasConditions('x')":                          false,
		"quantity('-1Gi').sign() == -1":               true,
		"[1, 3, 2].isSorted()":                        false,
		"[1, 2].max() == 2 && [1, 2].sum() == 3":      true,
		"['b', 'a', 'b'].lastIndexOf('b') == 2":       true,
		"'äöü'.indexOf('ü') == 2":                     true,
		"'äöä'.lastIndexOf('ä', 1) == 0":              true,
		"semver('1.2.3').isLessThan(semver('2.0.0'))": true,
	} {
		if got, _, err := run(t, e, text, nil); err != nil || got != want {
			t.Errorf("%s gives %v (%v), want %t", text, got, err, want)
		}
	}
}
