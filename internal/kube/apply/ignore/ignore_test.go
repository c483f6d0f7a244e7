// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n","annotations":{"a.b/c":"1","other":"2"}},
"spec":{"replicas":3,"template":{"spec":{"containers":[
{"name":"web","image":"w:1","args":["-a","-b"],"ports":[{"containerPort":80}],"env":[{"name":"X","value":"1"},{"name":"Y","value":"2"}]},
{"name":"proxy","image":"p:1"},{"name":"log","image":"l:1"}]}}}}`

func decode(t testing.TB, raw string) map[string]any {
	t.Helper()
	var object map[string]any
	expect.NoError(t, utiljson.Unmarshal([]byte(raw), &object))
	return object
}

func jsonPaths(paths ...string) workv1.IgnoreField { return workv1.IgnoreField{JSONPaths: paths} }
func pointers(paths ...string) workv1.IgnoreField  { return workv1.IgnoreField{JSONPointers: paths} }

func jqs(paths ...string) workv1.IgnoreField { return workv1.IgnoreField{JQPathExpressions: paths} }

func TestExpressionsSelectFields(t *testing.T) {
	cases := map[string]struct {
		reason  string
		field   workv1.IgnoreField
		changed bool
		want    []string
	}{
		"a JSONPath":                       {field: jsonPaths(".spec.replicas"), want: []string{"/spec/replicas"}},
		"with a root":                      {field: jsonPaths("$.spec.replicas"), want: []string{"/spec/replicas"}},
		"in braces":                        {field: jsonPaths("{.spec.replicas}"), want: []string{"/spec/replicas"}},
		"without a dot":                    {field: jsonPaths("spec.replicas"), want: []string{"/spec/replicas"}},
		"a name with dots, escaped":        {field: jsonPaths(`.metadata.annotations.a\.b/c`), want: []string{"/metadata/annotations/a.b~1c"}},
		"a name with dots, quoted":         {field: jsonPaths(`.metadata.annotations['a.b/c']`), want: []string{"/metadata/annotations/a.b~1c"}},
		"all entries of a map":             {field: jsonPaths(".metadata.annotations.*"), want: []string{"/metadata/annotations/a.b~1c", "/metadata/annotations/other"}},
		"all items of a list":              {field: jsonPaths(".spec.template.spec.containers[*].image"), want: []string{"/spec/template/spec/containers/0/image", "/spec/template/spec/containers/1/image", "/spec/template/spec/containers/2/image"}},
		"one item of a list":               {field: jsonPaths(".spec.template.spec.containers[1]"), want: []string{"/spec/template/spec/containers/1"}},
		"the last item of a list":          {field: jsonPaths(".spec.template.spec.containers[-1]"), want: []string{"/spec/template/spec/containers/2"}},
		"some items of a list":             {field: jsonPaths(".spec.template.spec.containers[0:2].image"), want: []string{"/spec/template/spec/containers/0/image", "/spec/template/spec/containers/1/image"}},
		"an item past the end":             {field: jsonPaths(".spec.template.spec.containers[7]")},
		"items that a filter finds":        {field: jsonPaths(`.spec.template.spec.containers[?(@.name=="proxy")].image`), want: []string{"/spec/template/spec/containers/1/image"}},
		"items with something":             {field: jsonPaths(`.spec.template.spec.containers[?(@.args)]`), want: []string{"/spec/template/spec/containers/0"}},
		"items by number":                  {field: jsonPaths(`.spec.template.spec.containers[0].ports[?(@.containerPort>=80)]`), want: []string{"/spec/template/spec/containers/0/ports/0"}},
		"a name at any depth":              {field: jsonPaths("..value"), want: []string{"/spec/template/spec/containers/0/env/0/value", "/spec/template/spec/containers/0/env/1/value"}},
		"two names":                        {field: jsonPaths(".metadata.annotations['other','none']"), want: []string{"/metadata/annotations/other"}},
		"a field that is not there":        {field: jsonPaths(".spec.strategy.type")},
		"a field inside a number":          {field: jsonPaths(".spec.replicas.x")},
		"a pointer":                        {field: pointers("/spec/replicas"), want: []string{"/spec/replicas"}},
		"a pointer with a slash in a name": {field: pointers("/metadata/annotations/a.b~1c"), want: []string{"/metadata/annotations/a.b~1c"}},
		"a pointer to an item":             {field: pointers("/spec/template/spec/containers/1/image"), want: []string{"/spec/template/spec/containers/1/image"}},
		"a pointer past the end":           {field: pointers("/spec/template/spec/containers/3", "/spec/template/spec/containers/-", "/spec/template/spec/containers/01")},
		"a pointer to nothing":             {field: pointers("/spec/strategy/type", "/spec/replicas/x")},
		"a jq path":                        {field: jqs(".spec.replicas"), want: []string{"/spec/replicas"}},
		"a jq selection": {
			field: jqs(`.spec.template.spec.containers[] | select(.name == "proxy")`), want: []string{"/spec/template/spec/containers/1"},
		},
		"a jq selection by pattern": {
			field: jqs(`.spec.template.spec.containers[] | select(.name | test("^(proxy|log)$")) | .image`),
			want:  []string{"/spec/template/spec/containers/1/image", "/spec/template/spec/containers/2/image"},
		},
		"a jq path to what is not there": {field: jqs(".spec.strategy.type", ".spec.volumes[]?", ".spec.volumes[] | .name", ".spec.template.spec.containers[9]")},
		"a jq last item":                 {field: jqs(".spec.template.spec.containers[-1]"), want: []string{"/spec/template/spec/containers/2"}},
		"a jq path at any depth":         {field: jqs(`.. | objects | select(has("value")) | .value`), want: []string{"/spec/template/spec/containers/0/env/0/value", "/spec/template/spec/containers/0/env/1/value"}},
		"a jq path by list":              {field: jqs(`getpath(["spec","replicas"])`), want: []string{"/spec/replicas"}},
		"what is inside another is in it": {
			field: jsonPaths(".spec.template.spec.containers[0].image", ".spec.template", ".spec.replicas"), want: []string{"/spec/replicas", "/spec/template"},
		},
		"while nothing changed": {
			field: workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".spec.replicas"}}, want: []string{"/spec/replicas"},
		},
		"when the manifest changed": {
			reason: "then the hub decides", changed: true,
			field: workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".spec.replicas"}},
		},
		"what is left alone always, when the manifest changed": {changed: true, field: jsonPaths(".spec.replicas"), want: []string{"/spec/replicas"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fields, err := CompileExpressions([]workv1.IgnoreField{tc.field})
			expect.NoError(t, err)
			paths, err := fields.SelectPaths(t.Context(), decode(t, deployment), tc.changed, budget.NewBudget(clock.RealClock{}))
			var got []string
			for _, path := range paths {
				got = append(got, path.String())
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("Select: %v, -want +got:\n%s%s", err, diff, tc.reason)
			}
		})
	}
}

func TestWrongExpressionsSayWhatIsWrong(t *testing.T) {
	long := "." + strings.Repeat("a", ExpressionSizeMax)
	cases := map[string]struct {
		field workv1.IgnoreField
		want  string
	}{
		"an empty expression":       {field: jsonPaths(""), want: `ignoreFields[0].jsonPaths: "": it is empty`},
		"a long expression":         {field: jqs(long), want: "it has 1025 bytes, at most 1024 are allowed"},
		"too many expressions":      {field: pointers(make([]string, ExpressionsMax+1)...), want: "jsonPointers has 101 expressions, at most 100 are allowed"},
		"half a JSONPath":           {field: jsonPaths(".spec.containers[?(@.name=="), want: "it is not a JSONPath"},
		"text in a JSONPath":        {field: jsonPaths(`.a "b"`), want: "Text does not name a field"},
		"two JSONPaths":             {field: jsonPaths("{.a}{.b}"), want: "it is not"},
		"a filter of its own":       {field: jsonPaths(`.a[?(@.b=="c")][?(@.b<>"c")]`), want: `a filter cannot have "<>"`},
		"the whole object":          {field: jsonPaths("$"), want: "it selects the whole object"},
		"a pointer without a slash": {field: pointers("spec/replicas"), want: "starts with a slash"},
		"a pointer with a tilde":    {field: pointers("/a~2"), want: "a ~ is written as ~0"},
		"half a jq path":            {field: jqs(".spec |"), want: "it is not a jq expression"},
		"a jq function of no use":   {field: jqs(".spec | del(.replicas)"), want: "del with 1 arguments is not allowed"},
		"a jq definition":           {field: jqs("def f: f; f"), want: "it must not define functions"},
		"a jq variable":             {field: jqs(". as $x | .a"), want: "it must not use variables"},
		"a jq environment":          {field: jqs("env.HOME"), want: "env with 0 arguments is not allowed"},
		"a jq assignment":           {field: jqs(".a = 1"), want: "operator = is not allowed"},
		"a jq product":              {field: jqs(`.a | select("x" * 1000000000 == .)`), want: "operator * is not allowed"},
		"a jq loop":                 {field: jqs("reduce .[] as $x (0; .)"), want: "is not allowed"},
		"a jq text with code":       {field: jqs(`.["\(.a)"]`), want: "string interpolation is not allowed"},
		"a jq slice":                {field: jqs(".a[1:]"), want: "slices are not allowed"},
		"a jq object":               {field: jqs("{a: 1}"), want: "is not allowed"},
		"a jq list of lists":        {field: jqs("getpath([[.. ]])"), want: "a list may only contain strings and numbers"},
		"a jq pattern that repeats": {field: jqs(`.a | select(test("(a{1000}){1000}"))`), want: "without {"},
		"a jq import":               {field: jqs(`import "a" as a; .b`), want: "it must not import"},
		"jq nested deep":            {field: jqs(strings.Repeat("(", 200) + ".a" + strings.Repeat(")", 200)), want: "nested more than 100 deep"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := CompileExpressions([]workv1.IgnoreField{tc.field})
			if !errors.Is(err, ErrExpression) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Compile: got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestExpressionsThatCannotBeUsedSayWhy(t *testing.T) {
	var many []string
	for range 5000 {
		many = append(many, `{"a":{"a":{"a":1}}}`)
	}
	big := `{"a":[` + strings.Join(many, ",") + `]}`
	cases := map[string]struct {
		field    workv1.IgnoreField
		manifest string
		want     string
	}{
		"the name of the object":       {field: jsonPaths(".metadata.name"), manifest: deployment, want: `selects "/metadata/name"`},
		"all metadata":                 {field: pointers("/metadata"), manifest: deployment, want: "which identifies the object"},
		"everything":                   {field: jqs(".."), manifest: deployment, want: "which identifies the object"},
		"no path":                      {field: jqs(`.spec.replicas == 3 | .x`), manifest: deployment, want: "expected an object"},
		"items of a number":            {field: jqs(`.spec.replicas[]`), manifest: deployment, want: "cannot iterate over"},
		"more places than are allowed": {field: jsonPaths("..a"), manifest: big, want: "more than 10000 fields"},
		"more fields than are allowed": {field: jqs(".a[] | .."), manifest: big, want: "more than 10000 fields"},
		"what takes too long":          {field: jqs(strings.Repeat("..|", 12) + "select(. == 7)"), manifest: big, want: "takes longer than 1s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fields, err := CompileExpressions([]workv1.IgnoreField{tc.field})
			expect.NoError(t, err)
			started := time.Now()
			_, err = fields.SelectPaths(t.Context(), decode(t, tc.manifest), false, budget.NewBudget(clock.RealClock{}))
			if !errors.Is(err, ErrExpression) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Select: got error %v, want one with %q", err, tc.want)
			}
			if took := time.Since(started); took > 20*JQTimeout {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestFieldsAreRemoved(t *testing.T) {
	cases := map[string]struct {
		object, want string
		paths        []Path
	}{
		"an entry of a map":                 {object: `{"a":{"b":1,"c":2}}`, paths: []Path{{"a", "b"}}, want: `{"a":{"c":2}}`},
		"the only entry of a map":           {object: `{"a":{"b":1}}`, paths: []Path{{"a", "b"}}, want: `{"a":{}}`},
		"items of a list":                   {object: `{"a":[0,1,2,3]}`, paths: []Path{{"a", 0}, {"a", 2}}, want: `{"a":[1,3]}`},
		"inside an item and a later item":   {object: `{"a":[{"x":1,"y":1},{"x":2}]}`, paths: []Path{{"a", 0, "x"}, {"a", 1}}, want: `{"a":[{"y":1}]}`},
		"items of a list in a list":         {object: `{"a":[[0,1],[2]]}`, paths: []Path{{"a", 0, 1}, {"a", 1, 0}}, want: `{"a":[[0],[]]}`},
		"nothing":                           {object: `{"a":1}`, want: `{"a":1}`},
		"what is not there":                 {object: `{"a":[1]}`, paths: []Path{{"a", 1}, {"a", "x"}, {"b", "c"}}, want: `{"a":[1]}`},
		"an index of a map, a name of text": {object: `{"a":{"0":1},"b":"x"}`, paths: []Path{{"a", 0}, {"b", "c"}}, want: `{"a":{"0":1},"b":"x"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := decode(t, tc.object)
			RemovePaths(object, tc.paths)
			got, err := json.Marshal(object)
			if diff := cmp.Diff(tc.want, string(got)); err != nil || diff != "" {
				t.Errorf("Remove: %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// hasParts has an API declare that of all maps or lists the one at a path has parts.
func hasParts(at string, list bool) owned.Declared {
	return func(path fieldpath.Path, isList bool) (one, known bool) {
		return path.String() != at || isList != list, true
	}
}

func TestOwnershipIsGivenUp(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	cases := map[string]struct {
		reason string
		fields string
		paths  []Path
		// declared is what the API says of a map or list that looks like one value.
		declared owned.Declared
		want     string // empty for no entry
		changed  bool
		err      string
	}{
		"of a field": {
			fields: `{"f:spec":{"f:replicas":{},"f:paused":{}}}`, paths: []Path{{"spec", "replicas"}}, changed: true, want: `{"f:spec":{"f:paused":{}}}`,
		},
		"of a field that others own": {
			fields: `{"f:spec":{"f:paused":{}}}`, paths: []Path{{"spec", "replicas"}}, want: `{"f:spec":{"f:paused":{}}}`,
		},
		"of a field in an item": {
			fields:  `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:image":{},"f:name":{}},"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`,
			paths:   []Path{{"spec", "template", "spec", "containers", 1, "image"}},
			changed: true,
			want:    `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:name":{}},"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`,
		},
		"of an item": {
			fields:  `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`,
			paths:   []Path{{"spec", "template", "spec", "containers", 1}},
			changed: true,
		},
		"of an item whose second key is set by default": {
			fields:  `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`,
			paths:   []Path{{"spec", "template", "spec", "containers", 0, "ports", 0}},
			changed: true,
			want:    `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{}}}}}}`,
		},
		"of all that is in a map": {
			reason:  "the map would look like one value",
			fields:  `{"f:spec":{"f:paused":{},"f:template":{"f:metadata":{".":{},"f:labels":{".":{},"f:app":{}}}}}}`,
			paths:   []Path{{"spec", "template", "metadata", "labels", "app"}},
			changed: true,
			want:    `{"f:spec":{"f:paused":{}}}`,
		},
		"of some that is in a map": {
			fields:  `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}}}}}`,
			paths:   []Path{{"spec", "template", "metadata", "labels", "app"}},
			changed: true,
			want:    `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{".":{},"f:tier":{}}}}}}`,
		},
		"of labels of which all was given up before": {
			fields: `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{}}}}}`,
			paths:  []Path{{"spec", "template", "metadata", "labels", "app"}},
			want:   `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{}}}}}`,
		},
		"of a map of which all was given up before": {
			reason: "it has parts, says the API",
			fields: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:resources":{}}}}}}}`,
			paths:  []Path{{"spec", "template", "spec", "containers", 0, "resources", "limits"}}, declared: hasParts(`.spec.template.spec.containers[0].resources`, false),
			want: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:resources":{}}}}}}}`,
		},
		"of a list of which all was given up before": {
			reason: "it has parts, says the API",
			fields: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{}}}}}`,
			paths:  []Path{{"spec", "template", "spec", "containers", 0, "image"}}, declared: hasParts(`.spec.template.spec.containers`, true),
			want: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{}}}}}`,
		},
		"of part of what the API says is one value": {
			fields: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{}}}}}}}`,
			paths:  []Path{{"spec", "template", "spec", "containers", 0, "args", 1}}, declared: hasParts("", true),
			err: "/spec/template/spec/containers/0/args, which the API treats as one value",
		},
		"of part of what the API says nothing about": {
			fields:   `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{}}}}}}}`,
			paths:    []Path{{"spec", "template", "spec", "containers", 0, "args", 1}},
			declared: func(fieldpath.Path, bool) (one, known bool) { return false, false },
			err:      "/spec/template/spec/containers/0/args, which the API treats as one value",
		},
		"of part of what is one value": {
			reason: "the list would be applied without the item",
			fields: `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{}}}}}}}`,
			paths:  []Path{{"spec", "template", "spec", "containers", 0, "args", 1}}, err: "/spec/template/spec/containers/0/args, which the API treats as one value",
		},
		"of all of what is one value": {
			fields:  `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{}}}}}}}`,
			paths:   []Path{{"spec", "template", "spec", "containers", 0, "args"}},
			changed: true,
			want:    `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{}}}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := []metav1.ManagedFieldsEntry{entry("other", `{"f:spec":{"f:replicas":{}}}`), entry("ours", tc.fields)}
			rest, changed, err := DisownFields(before, func(e *metav1.ManagedFieldsEntry) bool { return e.Manager == "ours" }, decode(t, deployment), tc.paths, tc.declared)
			if tc.err != "" {
				if !errors.Is(err, ErrExpression) || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("Disown: got error %v, want one with %q. %s", err, tc.err, tc.reason)
				}
				return
			}
			want := []string{`other {"f:spec":{"f:replicas":{}}}`}
			if tc.want != "" {
				want = append(want, "ours "+tc.want)
			}
			var got []string
			for _, e := range rest {
				got = append(got, fmt.Sprintf("%s %s", e.Manager, e.FieldsV1.GetRawString()))
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" || changed != tc.changed {
				t.Errorf("Disown: changed %t, %v, -want +got:\n%s", changed, err, diff)
			}
		})
	}
}

// jumping is a clock on which each reading takes half a second.
type jumping struct{ now time.Time }

func (j *jumping) Now() time.Time {
	j.now = j.now.Add(time.Second / 2)
	return j.now
}

func (j *jumping) Since(t time.Time) time.Duration { return j.Now().Sub(t) }

func TestTheManifestsOfAWorkShareABudget(t *testing.T) {
	var many []string
	for range 900 {
		many = append(many, `{"a":{"a":{"a":1}}}`)
	}
	wide := decode(t, `{"b":[`+strings.Join(many, ",")+`]}`)
	for name, c := range map[string]struct {
		field    workv1.IgnoreField
		manifest map[string]any
		clock    clock.PassiveClock
		most     int
		want     string
	}{
		"jq":       {jqs(".spec.replicas"), decode(t, deployment), &jumping{}, 10, "the jq expressions of this work take longer than 5s together"},
		"JSONPath": {jsonPaths("..a"), wide, clock.RealClock{}, 5000, "the paths of this work visit more than 2000000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			fields, err := CompileExpressions([]workv1.IgnoreField{c.field})
			expect.NoError(t, err)
			left := budget.NewBudget(c.clock)
			for n := 1; err == nil && n <= c.most+1; n++ {
				_, err = fields.SelectPaths(t.Context(), c.manifest, false, left)
			}
			if !errors.Is(err, ErrExpression) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want the end of the budget of the work, got %v", err)
			}
		})
	}
}
