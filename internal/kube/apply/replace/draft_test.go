// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

const (
	applied = metav1.ManagedFieldsOperationApply
	updated = metav1.ManagedFieldsOperationUpdate
)

func isOurs(entry *metav1.ManagedFieldsEntry) bool { return entry.Manager == "ours" }

// draftOf returns the draft for a manifest and a live object with what managers own.
func draftOf(t *testing.T, live, manifest string, ours, theirs string, retained ...ignore.Path) *Draft {
	t.Helper()
	draft, err := NewDraft(decode(t, live), decode(t, manifest), FieldOwners{
		Managers: []metav1.ManagedFieldsEntry{entry("ours", applied, ours), entry("theirs", updated, theirs)}, Ours: isOurs,
	}, retained)
	expect.NoError(t, err)
	return draft
}

// same fails if what the draft has beside its metadata is not as wanted.
func same(t *testing.T, draft *Draft, want string) {
	t.Helper()
	got := map[string]any{}
	for key, value := range draft.DesiredObject() {
		if key != "metadata" {
			got[key] = value
		}
	}
	if diff := cmp.Diff(decode(t, want), got); diff != "" {
		t.Errorf("draft (-want +got):\n%s", diff)
	}
}

func TestDraft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ live, manifest, ours, theirs, want string }{
		"what nobody owns goes": {
			live:     `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}`,
			manifest: `{"spec":{"strategy":{"type":"Recreate"}}}`, ours: `{"f:spec":{"f:strategy":{"f:type":{}}}}`, theirs: `{}`,
			want: `{"spec":{"strategy":{"type":"Recreate"}}}`,
		},
		"what the manifest has no more goes": {
			live: `{"spec":{"a":1,"b":{"c":2}}}`, manifest: `{"spec":{"a":3}}`, ours: `{"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`, theirs: `{}`,
			want: `{"spec":{"a":3}}`,
		},
		"what others own stays, but for what the manifest has": {
			live: `{"spec":{"a":1,"b":{"c":2,"d":3}},"other":{"e":4}}`, manifest: `{"spec":{"a":3}}`,
			ours: `{"f:spec":{"f:a":{},"f:b":{"f:d":{}}}}`, theirs: `{"f:spec":{"f:a":{},"f:b":{"f:c":{}}},"f:other":{"f:e":{}}}`,
			want: `{"spec":{"a":3,"b":{"c":2}},"other":{"e":4}}`,
		},
		"a map that is one value stays as a whole or goes": {
			live: `{"spec":{"a":{"x":1},"b":{"x":1}}}`, manifest: `{"spec":{"a":{"y":2}}}`, ours: `{"f:spec":{"f:a":{}}}`, theirs: `{"f:spec":{"f:a":{},"f:b":{}}}`,
			want: `{"spec":{"a":{"y":2},"b":{"x":1}}}`,
		},
		"items of others stay where they are, and parts of ours": {
			live: `{"l":[{"name":"first","v":1},{"name":"ours","v":2,"more":3},{"name":"second","v":4},{"name":"last","v":5}]}`, manifest: `{"l":[{"name":"ours","v":9},{"name":"new"}]}`,
			ours:   `{"f:l":{"k:{\"name\":\"ours\"}":{".":{},"f:name":{},"f:v":{}},"k:{\"name\":\"last\"}":{".":{},"f:name":{},"f:v":{}}}}`,
			theirs: `{"f:l":{"k:{\"name\":\"first\"}":{".":{},"f:v":{}},"k:{\"name\":\"ours\"}":{"f:more":{}},"k:{\"name\":\"second\"}":{".":{},"f:name":{}},"k:{\"name\":\"last\"}":{"f:v":{}}}}`,
			want:   `{"l":[{"name":"first","v":1},{"name":"ours","v":9,"more":3},{"name":"second"},{"name":"new"}]}`,
		},
		"a key that the server sets is no difference": {
			live: `{"l":[{"port":80,"protocol":"TCP","n":1},{"port":80,"protocol":"UDP","n":2}]}`, manifest: `{"l":[{"port":80},{"port":80,"protocol":"UDP"}]}`,
			ours: `{"f:l":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{}}}}`, theirs: `{"f:l":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{"f:n":{}}}}`,
			want: `{"l":[{"port":80},{"port":80,"protocol":"UDP","n":2}]}`,
		},
		"another protocol is another port": {
			live: `{"l":[{"port":80,"protocol":"UDP","n":2}]}`, manifest: `{"l":[{"port":80}]}`, ours: `{}`,
			theirs: `{"f:l":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:n":{}}}}`,
			want:   `{"l":[{"port":80,"protocol":"UDP","n":2},{"port":80}]}`,
		},
		"a key that another API sets by default": {
			live: `{"l":[{"a":"1","b":"x","n":1}]}`, manifest: `{"l":[{"a":"1"}]}`, ours: `{}`,
			theirs: `{"f:l":{"k:{\"a\":\"1\",\"b\":\"x\"}":{".":{},"f:n":{}}}}`, want: `{"l":[{"a":"1","n":1}]}`,
		},
		"an item that is there twice is as the manifest says": {
			live: `{"l":[{"name":"a","v":1},{"name":"a","v":2}]}`, manifest: `{"l":[{"name":"a","v":3},{"name":"a","v":4}]}`,
			ours: `{"f:l":{"k:{\"name\":\"a\"}":{}}}`, theirs: `{"f:l":{"k:{\"name\":\"a\"}":{"f:v":{}}}}`,
			want: `{"l":[{"name":"a","v":3},{"name":"a","v":4}]}`,
		},
		"values of a set": {
			live: `{"l":["ours","theirs","old"]}`, manifest: `{"l":["ours"]}`, ours: `{"f:l":{"v:\"ours\"":{},"v:\"old\"":{}}}`, theirs: `{"f:l":{"v:\"theirs\"":{}}}`,
			want: `{"l":["ours","theirs"]}`,
		},
		"null is what is not there": {
			live: `{"spec":{"a":1,"b":2}}`, manifest: `{"spec":{"a":null,"b":null}}`, ours: `{"f:spec":{"f:b":{}}}`, theirs: `{"f:spec":{"f:a":{}}}`,
			want: `{"spec":{"a":1,"b":null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, draftOf(t, test.live, test.manifest, test.ours, test.theirs), test.want)
		})
	}
}

func TestDraftMetadata(t *testing.T) {
	t.Parallel()
	draft := draftOf(t,
		`{"metadata":{"name":"n","uid":"u","resourceVersion":"7","generation":3,"managedFields":[{}],"labels":{"ours":"1","old":"1","nobodys":"1"},
			"annotations":{"theirs":"1"},"finalizers":["nobodys","old"],"ownerReferences":[{"uid":"1","name":"owner"},{"uid":"2","name":"old"}]}}`,
		`{"metadata":{"name":"n","labels":{"ours":"2"},"ownerReferences":[{"uid":"3","name":"record"}]}}`,
		`{"f:metadata":{"f:labels":{"f:ours":{},"f:old":{}},"f:finalizers":{"v:\"old\"":{}},"f:ownerReferences":{"k:{\"uid\":\"2\"}":{}}}}`,
		`{"f:metadata":{"f:annotations":{".":{},"f:theirs":{}}}}`)
	want := decode(t, `{"name":"n","uid":"u","resourceVersion":"7","generation":3,"labels":{"ours":"2","nobodys":"1"},
		"annotations":{"theirs":"1"},"finalizers":["nobodys"],"ownerReferences":[{"uid":"1","name":"owner"},{"uid":"3","name":"record"}]}`)
	if diff := cmp.Diff(want, draft.DesiredObject()["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// TestDraftUnmanaged has an object of which nobody can tell whose what is.
func TestDraftUnmanaged(t *testing.T) {
	t.Parallel()
	draft, err := NewDraft(decode(t, `{"spec":{"a":1,"l":[1,2]},"data":{"k":"v"}}`), decode(t, `{"spec":{"a":2}}`), FieldOwners{}, nil)
	expect.NoError(t, err)
	same(t, draft, `{"spec":{"a":2,"l":[1,2]},"data":{"k":"v"}}`)
}

func TestDraftRetains(t *testing.T) {
	t.Parallel()
	same(t, draftOf(t, `{"spec":{"replicas":5,"deep":{"a":1,"b":2},"x":1}}`, `{"spec":{"y":1}}`, `{"f:spec":{"f:deep":{"f:a":{}}}}`, `{}`,
		ignore.Path{"spec", "replicas"}, ignore.Path{"spec", "deep", "a"}), `{"spec":{"y":1,"replicas":5,"deep":{"a":1}}}`)
	if _, err := NewDraft(nil, nil, FieldOwners{}, []ignore.Path{{"l", 1}}); err == nil {
		t.Error("an item of a list is retained")
	}
}

// TestRefused shows what is tried next, refusal by refusal.
func TestRefused(t *testing.T) {
	t.Parallel()
	const (
		live = `{"spec":{"fixed":"x","nobodys":1,"was":"ours","ports":[{"name":"a","port":80,"node":1},{"name":"a","port":81,"node":2}],"theirs":{"x":1}}}`
		ours = `{"f:spec":{"f:fixed":{},"f:was":{},"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}}}}}`
		them = `{"f:spec":{"f:theirs":{"f:x":{}},"f:ports":{"k:{\"port\":81}":{".":{},"f:name":{},"f:port":{}}}}}`
	)
	for name, test := range map[string]struct {
		manifest string
		refusals []string // of the fields, one after the other
		want     string
		end      bool // there is nothing else to try
	}{
		"an item of another's that contradicts": {
			manifest: `{"spec":{"ports":[{"name":"a","port":80}]}}`, refusals: []string{"spec.ports[1].name"},
			want: `{"spec":{"ports":[{"name":"a","port":80}],"theirs":{"x":1}}}`,
		},
		"an item of ours that another's contradicts": {
			manifest: `{"spec":{"ports":[{"port":80}]}}`, refusals: []string{"spec.ports[0].name", "spec.ports[0].name", "spec.ports[0].name"},
			want: `{"spec":{"ports":[{"port":80}],"theirs":{"x":1}}}`,
		},
		"what cannot change, first as nobody's and then as ours": {
			manifest: `{"spec":{}}`, refusals: []string{"spec.ports", "spec.ports"},
			want: `{"spec":{"ports":[{"name":"a","port":80,"node":1},{"name":"a","port":81,"node":2}],"theirs":{"x":1}}}`,
		},
		"what cannot change and is ours": {
			manifest: `{"spec":{}}`, refusals: []string{"spec.fixed"},
			want: `{"spec":{"fixed":"x","ports":[{"name":"a","port":81}],"theirs":{"x":1}}}`,
		},
		"all of a field, of which not all is ours": { // what of it cannot change is found out by its parts
			manifest: `{"spec":{}}`, refusals: []string{"spec", "spec"}, end: true,
			want: `{"spec":{"nobodys":1,"ports":[{"name":"a","port":81,"node":2}],"theirs":{"x":1}}}`,
		},
		"what cannot change and is nobody's": {
			manifest: `{"spec":{}}`, refusals: []string{"spec"},
			want: `{"spec":{"nobodys":1,"ports":[{"name":"a","port":81,"node":2}],"theirs":{"x":1}}}`,
		},
		"a field of another's that contradicts": {
			manifest: `{"spec":{"ports":[]}}`, refusals: []string{"spec.theirs.x"},
			want: `{"spec":{"ports":[{"name":"a","port":81}]}}`,
		},
		"what the manifest has wrong": {
			manifest: `{"spec":{"fixed":"y","ports":[{"port":80,"name":"?"}]}}`, refusals: []string{"spec.fixed"}, end: true,
			want: `{"spec":{"fixed":"y","ports":[{"name":"?","port":80},{"name":"a","port":81}],"theirs":{"x":1}}}`,
		},
		"nothing in particular, and metadata": {
			manifest: `{"spec":{}}`, refusals: []string{""}, end: true, want: `{"spec":{"ports":[{"name":"a","port":81}],"theirs":{"x":1}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			draft := draftOf(t, live, test.manifest, ours, them)
			for i, field := range test.refusals {
				if again := draft.HandleRefusal([]metav1.StatusCause{{Field: field}}); again == (test.end && i == len(test.refusals)-1) {
					t.Errorf("refusal %d of %q: again is %t", i, field, again)
				}
			}
			same(t, draft, test.want)
		})
	}
}

// TestRefusedTwice has refusals that name fields more than once, as those of Jobs do.
func TestRefusedTwice(t *testing.T) {
	t.Parallel()
	const live = `{"spec":{"selector":{"uid":"1"},"template":{"labels":{"uid":"1"},"image":"a"}}}`
	refusals := [][]string{
		{"spec.selector", "spec.template.labels", "spec.selector", "spec.template.labels", "spec.selector", "spec.template"},
		{"spec.template.labels", "spec.template", "spec.template.labels.uid", "spec.selector", "spec.selector.uid"},
	}
	for _, fields := range refusals {
		draft := draftOf(t, live, `{"spec":{"template":{"image":"b"}}}`, `{"f:spec":{"f:template":{"f:image":{}}}}`, `{}`)
		var causes []metav1.StatusCause
		for _, field := range fields {
			causes = append(causes, metav1.StatusCause{Field: field})
		}
		if !draft.HandleRefusal(causes) {
			t.Errorf("%v: nothing else is tried", fields)
		}
		const whole = `{"spec":{"selector":{"uid":"1"},"template":{"labels":{"uid":"1"},"image":"b"}}}`
		same(t, draft, whole)
	}
}

// TestRefusedItems has one refusal name several items of a list by where they were in the draft.
func TestRefusedItems(t *testing.T) {
	t.Parallel()
	item := func(name string) string { return `"k:{\"name\":\"` + name + `\"}":{".":{},"f:name":{}}` }
	draft := draftOf(t, `{"l":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, `{"l":[{"name":"d"}]}`, `{}`,
		`{"f:l":{`+item("a")+`,`+item("b")+`,`+item("c")+`}}`)
	if !draft.HandleRefusal([]metav1.StatusCause{{Field: "l[0].x"}, {Field: "l[1].x"}}) {
		t.Error("nothing else is tried")
	}
	same(t, draft, `{"l":[{"name":"c"},{"name":"d"}]}`)
}

func TestImproved(t *testing.T) {
	t.Parallel()
	causes := func(fields ...string) (causes []metav1.StatusCause) {
		for _, field := range fields {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field})
		}
		return causes
	}
	required := []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueRequired, Field: "a"}}
	for name, test := range map[string]struct {
		manifest, draft []metav1.StatusCause
		want            bool
	}{
		"less":                {causes("a", "b"), causes("b"), true},
		"the same":            {causes("a"), causes("a", "a"), true},
		"something else":      {causes("a"), causes("b"), false},
		"more":                {causes("a"), causes("a", "b"), false},
		"nothing is said":     {causes("a"), nil, false},
		"of another kind":     {causes("a"), required, false},
		"nothing was against": {nil, causes("a"), false},
	} {
		if got := HasImproved(test.manifest, test.draft); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestRefusedEnds shows that no refusals make a draft change for ever.
func TestRefusedEnds(t *testing.T) {
	t.Parallel()
	draft := draftOf(t, `{"spec":{"a":1,"l":[{"n":"x","v":1},{"n":"y"}]}}`, `{"spec":{"b":1}}`, `{"f:spec":{"f:a":{}}}`,
		`{"f:spec":{"f:l":{"k:{\"n\":\"x\"}":{".":{}}}}}`)
	causes := []metav1.StatusCause{{Field: "spec"}, {Field: "spec.a"}, {Field: "spec.l"}, {Field: "spec.l[0].v"}, {Field: "spec.l[7]"}, {Field: "spec.m[k]"}, {Field: "metadata.labels"}}
	for n := 1; draft.HandleRefusal(causes); n++ {
		if n > 20 {
			t.Fatal("it does not end")
		}
	}
}

// TestFewCausesAreLookedAt shows that a server does not have drafts made without end: neither
// by many causes of a refusal nor by many refusals, nor by the path of a field.
func TestFewCausesAreLookedAt(t *testing.T) {
	t.Parallel()
	const many = 1_000
	var live, ours []string
	var causes []metav1.StatusCause
	for i := range many {
		live, ours = append(live, fmt.Sprintf(`"a%d":1`, i)), append(ours, fmt.Sprintf(`"f:a%d":{}`, i))
		causes = append(causes, metav1.StatusCause{Field: fmt.Sprintf("spec.a%d", i)})
	}
	draft := draftOf(t, `{"spec":{`+strings.Join(live, ",")+`}}`, `{"spec":{}}`, `{"f:spec":{`+strings.Join(ours, ",")+`}}`, `{}`)
	kept := func() int {
		spec, _ := draft.DesiredObject()["spec"].(map[string]any)
		return len(spec)
	}
	if !draft.HandleRefusal(causes) || kept() != causesMax {
		t.Errorf("%d fields are kept after one refusal", kept())
	}
	for i := range causes {
		draft.HandleRefusal(causes[i : i+1])
	}
	if kept() > remediesMax {
		t.Errorf("%d fields are kept after many", kept())
	}
	if steps := stepsOf(strings.Repeat("a.", fieldBytesMax)); steps != nil {
		t.Errorf("a long path has %d steps", len(steps))
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for field, want := range map[string][]any{
		"": nil, "spec": {"spec"}, "spec.ports[1].name": {"spec", "ports", 1, "name"}, "data[a.b/c]": {"data", "a.b/c"},
		"a[0][12].b": {"a", 0, 12, "b"}, "a[-1]": {"a", "-1"}, "a[": {"a", ""}, "a.": {"a"}, "[0]": {0},
	} {
		if diff := cmp.Diff(want, stepsOf(field)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", field, diff)
		}
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	draft := draftOf(t, `{"kind":"K","metadata":{"name":"n","resourceVersion":"7"},"a":1,"b~/":{"c":1}}`, `{"kind":"K","metadata":{"name":"n"},"a":2,"d":{},"e":null}`, `{}`, `{}`)
	patch, err := draft.RenderPatch()
	expect.NoError(t, err)
	var got any
	expect.NoError(t, json.Unmarshal(patch, &got))
	want := []any{
		map[string]any{"op": "add", "path": "/a", "value": 2.0},
		map[string]any{"op": "add", "path": "/d", "value": map[string]any{}},
		map[string]any{"op": "add", "path": "/metadata", "value": map[string]any{"name": "n", "resourceVersion": "7"}},
		map[string]any{"op": "remove", "path": "/b~0~1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

// TestLongLists shows that lists do not take the square of their length, which who writes a
// manifest or an object chooses.
func TestLongLists(t *testing.T) {
	const few, many = 2_500, 20_000 // eight times as many, whose square is 64 times as much
	fastest := func(n int) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 3 {
			least = min(least, timeOfLists(t, n))
		}
		return least
	}
	if short, long := fastest(few), fastest(many); long > 30*short {
		t.Errorf("%d items take %v, and %d take %v", few, short, many, long)
	}
}

// timeOfLists returns how long a list of so many items takes.
func timeOfLists(t *testing.T, n int) time.Duration {
	t.Helper()
	var live, given, fields []string
	for i := range n {
		live = append(live, fmt.Sprintf(`{"port":%d,"protocol":"TCP"}`, i))
		given = append(given, fmt.Sprintf(`{"port":%d}`, i))
		fields = append(fields, fmt.Sprintf(`"k:{\"port\":%d,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}`, i))
	}
	set := `{"f:l":{` + strings.Join(fields, ",") + `}}`
	begun := time.Now()
	draft := draftOf(t, `{"l":[`+strings.Join(live, ",")+`]}`, `{"l":[`+strings.Join(given, ",")+`]}`, set, set)
	if _, _, err := SettleManagers([]metav1.ManagedFieldsEntry{entry("ours", updated, set)}, "ours", draft.manifest); err != nil {
		t.Fatal(err)
	}
	if got := len(draft.DesiredObject()["l"].([]any)); got != n {
		t.Errorf("the draft has %d items", got)
	}
	return time.Since(begun)
}
