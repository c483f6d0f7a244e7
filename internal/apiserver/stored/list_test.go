// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stored_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

const (
	begin = `{"kind":"ManifestWorkList","apiVersion":"work.open-cluster-management.io/v1",`
	meta  = `"metadata":{"resourceVersion":"7","continue":"next"}`
	two   = `"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}`
)

func TestList(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		names  []string
		fails  string
	}{
		"items last":               {answer: begin + meta + `,` + two + `]}`, names: []string{"a", "b"}},
		"items first":              {answer: begin + two + `],` + meta + `}`, names: []string{"a", "b"}},
		"a field that we know not": {answer: begin + meta + `,"shards":[{"a":[1]}],` + two + `]}`, names: []string{"a", "b"}},
		"nothing":                  {answer: begin + meta + `,"items":[]}`},
		"cut off in an item":       {answer: begin + meta + `,` + two[:len(two)-5], fails: "unexpected EOF"},
		"cut off between items":    {answer: begin + meta + `,` + two, fails: "EOF"},
		"cut off after the items":  {answer: begin + meta + `,` + two + `]`, fails: "EOF"},
		"an item of another type":  {answer: begin + meta + `,"items":[{"metadata":"a"}]}`, fails: "cannot unmarshal"},
		"items that are no list":   {answer: begin + meta + `,"items":{}}`, fails: "where [ was expected"},
		"something else":           {answer: `"404 page not found"`, fails: "where { was expected"},
	} {
		t.Run(name, func(t *testing.T) {
			names, got, err := list(t, func(w http.ResponseWriter) { fmt.Fprint(w, c.answer) })
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(names, c.names) || got.ResourceVersion != "7" || got.Continue != "next" {
				t.Errorf("listed %v with %+v", names, got)
			}
		})
	}
}

// What the hub refuses keeps its code and words.
func TestListRefused(t *testing.T) {
	_, _, err := list(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}`)
	})
	if !apierrors.IsResourceExpired(err) || err.Error() != "too old" {
		t.Errorf("the error is %v", err)
	}
}

// list lists from a server that answers by write.
func list(t *testing.T, write func(w http.ResponseWriter)) ([]string, metav1.ListMeta, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := "/apis/work.open-cluster-management.io/v1/namespaces/one/manifestworks?limit=2"; r.URL.String() != want {
			t.Errorf("asked for %s, want %s", r.URL, want)
		}
		write(w)
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, err := stored.NewHubClient(&rest.Config{Host: server.URL}, workv1.GroupVersion, scheme)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	works := stored.NewHubResource[workv1.ManifestWork](client, runtime.NewParameterCodec(scheme), "manifestworks", "one")
	got, err := works.List(t.Context(), metav1.ListOptions{Limit: 2}, func(w *workv1.ManifestWork) { names = append(names, w.Name) })
	return names, got, err //nolint:wrapcheck // it is looked at
}
