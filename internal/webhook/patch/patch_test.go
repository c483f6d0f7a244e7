// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package patch_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/webhook/patch"
)

// TestPatchesDoWhatTheySay applies patches as the API server does.
func TestPatchesDoWhatTheySay(t *testing.T) {
	type labels = map[string]string
	for name, c := range map[string]struct {
		object string
		change func(*patch.JSONPatch)
		want   string
	}{
		"nothing": {object: `{}`, change: func(*patch.JSONPatch) {}, want: `{}`},
		"a field that is not there": {
			object: `{"spec":{"list":[{}]}}`, change: func(p *patch.JSONPatch) { p.SetField(true, "spec", "list", "0", "on") }, want: `{"spec":{"list":[{"on":true}]}}`,
		},
		"a field that has another value": {object: `{"a":1}`, change: func(p *patch.JSONPatch) { p.SetField(2, "a") }, want: `{"a":2}`},
		"names with special characters":  {object: `{"a/b~1":{}}`, change: func(p *patch.JSONPatch) { p.SetField("x", "a/b~1", "~0/") }, want: `{"a/b~1":{"~0/":"x"}}`},
		"one item more":                  {object: `{"a":[1]}`, change: func(p *patch.JSONPatch) { p.AppendItem(2, "a"); p.AppendItem(3, "a") }, want: `{"a":[1,2,3]}`},
		"the first labels": {
			object: `{"metadata":{}}`, change: func(p *patch.JSONPatch) { p.UpdateLabels(nil, labels{"a": "b"}) }, want: `{"metadata":{"labels":{"a":"b"}}}`,
		},
		"labels that come, stay, change and go": {
			object: `{"metadata":{"labels":{"stays":"1","changes":"1","a/goes":"1"}}}`,
			change: func(p *patch.JSONPatch) {
				p.UpdateLabels(labels{"stays": "1", "changes": "1", "a/goes": "1"}, labels{"stays": "1", "changes": "2", "comes": "1"})
			},
			want: `{"metadata":{"labels":{"stays":"1","changes":"2","comes":"1"}}}`,
		},
		"no labels any more": {
			object: `{"metadata":{"labels":{"a":"b"}}}`, change: func(p *patch.JSONPatch) { p.UpdateLabels(labels{"a": "b"}, nil) }, want: `{"metadata":{"labels":{}}}`,
		},
		"the first finalizer": {
			object: `{"metadata":{}}`, change: func(p *patch.JSONPatch) { p.AddFinalizer(nil, "a/b") }, want: `{"metadata":{"finalizers":["a/b"]}}`,
		},
		"another finalizer": {
			object: `{"metadata":{"finalizers":["c/d"]}}`, change: func(p *patch.JSONPatch) { p.AddFinalizer([]string{"c/d"}, "a/b") }, want: `{"metadata":{"finalizers":["c/d","a/b"]}}`,
		},
		"a finalizer that is there": {
			object: `{"metadata":{"finalizers":["a/b"]}}`, change: func(p *patch.JSONPatch) { p.AddFinalizer([]string{"a/b"}, "a/b") }, want: `{"metadata":{"finalizers":["a/b"]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p patch.JSONPatch
			c.change(&p)
			response := p.AdmissionResponse()
			if !response.Allowed {
				t.Fatalf("it is refused: %+v", response.Result)
			}
			written, err := json.Marshal(response.Patches)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := jsonpatch.DecodePatch(written)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := decoded.Apply([]byte(c.object))
			if err != nil {
				t.Fatalf("applying %s: %v", written, err)
			}
			if diff := cmp.Diff(read(t, c.want), read(t, string(changed))); diff != "" {
				t.Errorf("%s makes (-want +got):\n%s", written, diff)
			}
		})
	}
}

func read(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestMoreChangesThanThereCanBeAreRefused(t *testing.T) {
	var p patch.JSONPatch
	for i := range 100_000 {
		p.SetField("x", "spec", "list", strconv.Itoa(i), "field")
	}
	response := p.AdmissionResponse()
	if response.Allowed || len(response.Patches) > 0 || response.Result.Code != 422 || !strings.Contains(response.Result.Message, "more than 1000") {
		t.Errorf("got allowed %t with %d operations, %+v", response.Allowed, len(response.Patches), response.Result)
	}
}
