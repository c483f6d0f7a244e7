// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func paths(list ...workv1.JSONPath) workv1.FeedbackRule {
	return workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: list}
}

func TestRulesAreReadInTheirOrderAndEachNameOnce(t *testing.T) {
	t.Parallel()
	rules := []workv1.FeedbackRule{
		paths(workv1.JSONPath{Name: "Phase", Path: ".status.phase"}, workv1.JSONPath{Name: "Name", Path: ".metadata.name", Version: "v1"}),
		{Type: workv1.FeedbackTypeWellKnownStatus},
		paths(
			workv1.JSONPath{Name: "PodPhase", Path: ".metadata.name"},
			workv1.JSONPath{Name: "Beta", Path: ".metadata.name", Version: "v1beta1"},
			workv1.JSONPath{Name: "Last", Path: ".kind"},
		),
		{Type: "Guess"},
	}
	pod := build.ParseObject(t, `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Running}}`)
	values, messages := values(rules, pod, feedback.ValueOptions{})
	want := []string{`Phase String "Running"`, `Name String "a"`, `PodPhase String "Running"`, `Last String "Pod"`}
	if diff := cmp.Diff(want, short(t, values)); diff != "" {
		t.Errorf("values: %s", diff)
	}
	wantMessages := []string{
		`value "PodPhase": another rule already reports a value of this name; the first one applies`,
		`value "Beta": its path is for version v1beta1, but the object has version v1`,
		`feedback rule 3: unknown type "Guess"; use WellKnownStatus or JSONPaths`,
	}
	if diff := cmp.Diff(wantMessages, messages); diff != "" {
		t.Errorf("messages: %s", diff)
	}
}

func TestKindsWithoutWellKnownValuesSaySo(t *testing.T) {
	t.Parallel()
	rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}
	_, messages := values(rules, build.ParseObject(t, `{apiVersion: example.com/v1, kind: Deployment}`), feedback.ValueOptions{})
	want := []string{"kind Deployment of group example.com has no well-known values; select the fields with a rule of type JSONPaths"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAndMessagesHaveLimits(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", feedback.ResultBytesMax/2)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": big, "b": big, "c": "small"}}}
	var broken []workv1.JSONPath
	for i := range feedback.MessagesMax + 5 {
		broken = append(broken, workv1.JSONPath{Name: fmt.Sprint(i), Path: ".a["})
	}
	values, messages := values([]workv1.FeedbackRule{
		paths(workv1.JSONPath{Name: "a", Path: ".data.a"}, workv1.JSONPath{Name: "b", Path: ".data.b"}, workv1.JSONPath{Name: "c", Path: ".data.c"}),
		paths(broken...),
	}, o, feedback.ValueOptions{})
	if len(values) != 2 || values[0].Name != "a" || values[1].Name != "c" {
		t.Errorf("want a and c, and not b, which is too much; got %d values", len(values))
	}
	if want := `value "b": the values of an object are limited to 131072 bytes, and this one exceeds the limit`; messages[0] != want {
		t.Errorf("want %q, got %q", want, messages[0])
	}
	if len(messages) != feedback.MessagesMax+1 || messages[feedback.MessagesMax] != "and 6 more" {
		t.Errorf("want %d messages and a sum, got %q", feedback.MessagesMax, messages)
	}
}

// wide is an object in which paths of ".." find very much.
func wide(depth, width int) any {
	if depth == 0 {
		return int64(1)
	}
	m := map[string]any{}
	for i := range width {
		m[fmt.Sprint(i)] = wide(depth-1, width)
	}
	return m
}

// lists is a list in a list, as deep as that.
func lists(depth int) any {
	var list any = "x"
	for range depth {
		list = []any{list}
	}
	return list
}

func TestPathsThatVisitTooMuchEnd(t *testing.T) {
	t.Parallel()
	deep := map[string]any{}
	for range 1000 {
		deep = map[string]any{"a": deep, "b": "x"}
	}
	cases := map[string]struct {
		object map[string]any
		path   string
		want   string
	}{
		"everything in everything": {wide(8, 4).(map[string]any), "...*...*...*...*.x", "finds more than 100000 values"},
		"each item with each item": {wide(8, 4).(map[string]any), "..[?(@...*)]", "there is an object where a list was expected"},
		"very deep":                {deep, "..b", "deeper than 128 levels"},
		"a union of everything":    {map[string]any{"l": lists(50)}, ".l" + strings.Repeat("[*,*]", 40), "finds more than 100000 values"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list []workv1.JSONPath
			for i := range 50 {
				list = append(list, workv1.JSONPath{Name: fmt.Sprint(i), Path: c.path})
			}
			o := &unstructured.Unstructured{Object: c.object}
			_, messages := values([]workv1.FeedbackRule{paths(list...)}, o, feedback.ValueOptions{})
			if len(messages) == 0 || !strings.Contains(messages[0], c.want) {
				t.Errorf("want %q, got %q", c.want, messages)
			}
		})
	}
}

// FuzzPaths looks for paths and objects that end in another way than by values
// or messages.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{
		".status.phase", ".a[0]", ".a[-1:]", ".a[::2]", ".a[*].b", "..b", `.a[?(@.b=="x")].c`, ".a[0,1]", `['a']`, "$.a", `.a\.b`, ".a[?(@.b)]",
		"...*...*", ".a[9223372036854775807:]", ".a[0:9223372036854775807:9223372036854775807]", `.a[?(@.b>-1)]`, `"text"`, ".a[?(@)]", ".a[?(1==1)]",
	} {
		f.Add(path, `{"a": [{"b": "x", "c": 1}, 2.5, null, [true]], "status": {"phase": "Running"}}`, true)
		f.Add(path, `{"a": {"b": 1}}`, false)
	}
	f.Fuzz(func(t *testing.T, path, content string, raw bool) {
		var m map[string]any
		if json.Unmarshal([]byte(content), &m) != nil {
			return
		}
		rules := []workv1.FeedbackRule{paths(workv1.JSONPath{Name: "x", Path: path}), {Type: workv1.FeedbackTypeWellKnownStatus}}
		values, messages := values(rules, &unstructured.Unstructured{Object: m}, feedback.ValueOptions{RawJSON: raw})
		for _, v := range values {
			f := v.FieldValue
			if f.JSONRaw != nil && (len(*f.JSONRaw) > feedback.MaxRawJSONDefault || !json.Valid([]byte(*f.JSONRaw))) {
				t.Errorf("raw JSON that is too long or none: %q", *f.JSONRaw)
			}
			if f.Integer == nil && f.String == nil && f.Boolean == nil && f.JSONRaw == nil {
				t.Errorf("a value without a value: %+v", v)
			}
		}
		for _, message := range messages {
			if message == "" {
				t.Error("an empty message")
			}
		}
	})
}

func BenchmarkOneJSONPath(b *testing.B) {
	set := feedback.CompileFeedbackRules([]workv1.FeedbackRule{paths(workv1.JSONPath{Name: "x", Path: `.status.conditions[?(@.type=="Progressing")].status`})})
	o, known := build.ParseObject(b, webDeployment), kinds()
	b.ReportAllocs()
	for b.Loop() {
		if found := set.ReadValues(o, known, budget.NewBudget(clock.RealClock{}), feedback.ValueOptions{}); len(found.Values) != 1 {
			b.Fatal(found)
		}
	}
}

func BenchmarkWellKnownDeployment(b *testing.B) {
	set := feedback.CompileFeedbackRules([]workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}})
	o, known := build.ParseObject(b, webDeployment), kinds()
	b.ReportAllocs()
	for b.Loop() {
		if found := set.ReadValues(o, known, budget.NewBudget(clock.RealClock{}), feedback.ValueOptions{}); len(found.Values) != 1 {
			b.Fatal(found)
		}
	}
}

func BenchmarkParseOneJSONPath(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonpath.ParsePath(`.status.conditions[?(@.type=="Progressing")].status`); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheObjectsOfAWorkShareABudget(t *testing.T) {
	t.Parallel()
	set := feedback.CompileFeedbackRules([]workv1.FeedbackRule{paths(workv1.JSONPath{Name: "x", Path: "..x"})})
	o := &unstructured.Unstructured{Object: wide(4, 16).(map[string]any)} // 69,904 values
	left := budget.NewBudget(clock.RealClock{})
	const most = 40
	objects := 0
	var messages []string
	for ; len(messages) == 0 && objects <= most; objects++ {
		messages = set.ReadValues(o, kinds(), left, feedback.ValueOptions{}).Unread
	}
	if len(messages) != 1 || !strings.Contains(messages[0], "of this work visit more than 2000000 values") {
		t.Errorf("want the end of the budget of the work, got %q after %d objects", messages, objects)
	}
	if messages = set.ReadValues(o, kinds(), budget.NewBudget(clock.RealClock{}), feedback.ValueOptions{}).Unread; len(messages) > 0 {
		t.Errorf("want another work to have a budget of its own, got %q", messages)
	}
}
