// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestContentIsWhereTheServerStoresIt(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"stringData wins":             {`{"apiVersion":"v1","kind":"Secret","data":{"a":"MQ==","b":"MQ=="},"stringData":{"b":"2","c":""}}`, `{"apiVersion":"v1","data":{"a":"MQ==","b":"Mg==","c":""},"kind":"Secret"}`},
		"no data":                     {`{"apiVersion":"v1","kind":"Secret","data":null,"stringData":{"a":"1"}}`, `{"apiVersion":"v1","data":{"a":"MQ=="},"kind":"Secret"}`},
		"nothing in it":               {`{"apiVersion":"v1","kind":"Secret","stringData":{}}`, `{"apiVersion":"v1","kind":"Secret"}`},
		"a number is refused":         {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":1}}`, `{"apiVersion":"v1","kind":"Secret","stringData":{"a":1}}`},
		"data that is none":           {`{"apiVersion":"v1","kind":"Secret","data":[],"stringData":{"a":"1"}}`, `{"apiVersion":"v1","data":[],"kind":"Secret","stringData":{"a":"1"}}`},
		"another kind":                {`{"apiVersion":"example.com/v1","kind":"Secret","stringData":{"a":"1"}}`, `{"apiVersion":"example.com/v1","kind":"Secret","stringData":{"a":"1"}}`},
		"an account of pods":          {`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccount":"a"}}}}}}`, `{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccount":"a","serviceAccountName":"a"}}}}}}`},
		"two accounts of pods":        {`{"apiVersion":"v1","kind":"Pod","spec":{"serviceAccount":"a","serviceAccountName":"b"}}`, `{"apiVersion":"v1","kind":"Pod","spec":{"serviceAccount":"b","serviceAccountName":"b"}}`},
		"no account of pods":          {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":null}}`, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":null}}`},
		"rules that are aggregated":   {`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","aggregationRule":{},"rules":[{}]}`, `{"aggregationRule":{},"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"}`},
		"rules that are not":          {`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","aggregationRule":null,"rules":[{}]}`, `{"aggregationRule":null,"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","rules":[{}]}`},
		"an aggregation of other API": {`{"apiVersion":"example.com/v1","kind":"ClusterRole","aggregationRule":{},"rules":[{}]}`, `{"aggregationRule":{},"apiVersion":"example.com/v1","kind":"ClusterRole","rules":[{}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := NormalizedContent(t.Context(), []byte(tc.raw))
			expect.NoError(t, err)
			got, err := json.Marshal(content)
			if diff := cmp.Diff(tc.want, string(got)); err != nil || diff != "" {
				t.Errorf("Content: %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestSelectedFieldsAreThoseThatAreStored(t *testing.T) {
	raw := []byte(`{"apiVersion":"v1","kind":"Secret","data":{"a":"MQ=="},"stringData":{"b":"2","c":"3"}}`)
	content, err := SelectableContent(t.Context(), raw)
	expect.NoError(t, err)
	for name, tc := range map[string]struct{ selected, want []ignore.Path }{
		"a key of data":           {[]ignore.Path{{"data", "b"}}, []ignore.Path{{"data", "b"}}},
		"a key of stringData":     {[]ignore.Path{{"data", "b"}, {"stringData", "b"}}, []ignore.Path{{"data", "b"}}},
		"stringData":              {[]ignore.Path{{"stringData"}}, []ignore.Path{{"data", "b"}, {"data", "c"}}},
		"data and a key of both":  {[]ignore.Path{{"data"}, {"stringData", "b"}}, []ignore.Path{{"data"}}},
		"what is in another part": {[]ignore.Path{{"metadata", "labels"}}, []ignore.Path{{"metadata", "labels"}}},
	} {
		if diff := cmp.Diff(tc.want, StoredPaths(content, tc.selected)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if _, err := SelectableContent(t.Context(), []byte(`{`)); err == nil {
		t.Error("half an object can be selected from")
	}
}
