// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// costly is a quantity that takes hours to parse.
const costly = "1e-2000000000"

func bodiesOfTheServer(t testing.TB) (*bodyChecker, serializer.CodecFactory) {
	t.Helper()
	scheme, codecs, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBodyChecker(scheme)
	if err != nil {
		t.Fatal(err)
	}
	return b, codecs
}

func TestBodiesAreBounded(t *testing.T) {
	b, _ := bodiesOfTheServer(t)
	expands := "a: &a " + strings.Repeat("x", 1000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"
	grade := `{"spec":{"resourceModels":[{"ranges":[{"min":"` + costly + `"}]}]}}`
	for name, c := range map[string]struct {
		media, body string
		refused     func(error) bool // nil if it is read
	}{
		"YAML":                       {"application/yaml", "a: '*'", nil},
		"an applied patch":           {"application/apply-patch+yaml", `{"a":"*"}`, nil},
		"aliases":                    {"application/yaml", expands, apierrors.IsBadRequest},
		"aliases of an applied one":  {"Application/Apply-Patch+YAML; charset=utf-8", expands, apierrors.IsBadRequest},
		"no YAML":                    {"application/yaml", "{", apierrors.IsBadRequest},
		"as much YAML as may be":     {"application/yaml", strings.Repeat(" ", yamlBytesMax), nil},
		"more than that":             {"application/yaml", strings.Repeat(" ", yamlBytesMax+1), apierrors.IsRequestEntityTooLargeError},
		"JSON of that length":        {"application/json", strings.Repeat(" ", yamlBytesMax+1), nil},
		"no media type, for JSON":    {"", expands, nil}, // which fails as JSON
		"a grade":                    {"application/json", strings.Replace(grade, costly, "1e3", 1), nil},
		"a costly grade":             {"application/json", grade, apierrors.IsBadRequest},
		"one without a media type":   {"", grade, apierrors.IsBadRequest},
		"one of a patch":             {"application/strategic-merge-patch+json", grade, apierrors.IsBadRequest},
		"one of an applied patch":    {"application/apply-patch+yaml", grade, apierrors.IsBadRequest},
		"one in YAML":                {"application/yaml", "spec: {resourceModels: [{ranges: [{max: " + costly + "0, min: '" + costly + "'}]}]}", apierrors.IsBadRequest},
		"one in the status":          {"application/json", `{"status":{"resourceSummary":{"allocatable":{"cpu":` + costly + `}}}}`, apierrors.IsBadRequest},
		"a label that looks like it": {"application/json", `{"metadata":{"labels":{"commit":"` + costly + `"}}}`, nil},
	} {
		for way, from := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "in pieces": iotest.OneByteReader,
		} {
			got, err := readBounded(t, b, c.media, from(strings.NewReader(c.body)))
			if right := err == nil && got == c.body; c.refused == nil && !right || c.refused != nil && !c.refused(err) {
				t.Errorf("%s, %s: %d bytes of %d are read, with error %v", name, way, len(got), len(c.body), err)
			}
		}
	}
	for _, media := range []string{"application/yaml", "application/json"} {
		broken := errors.New("it broke")
		if _, err := readBounded(t, b, media, iotest.ErrReader(broken)); !errors.Is(err, broken) {
			t.Errorf("a body of type %s that breaks off: %v", media, err)
		}
	}
}

// readBounded returns what a handler reads, which tries it again after an error.
func readBounded(t testing.TB, b *bodyChecker, media string, body io.Reader) (got string, err error) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	request.Header.Set("Content-Type", media)
	b.checkBodyHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var text []byte
		text, err = io.ReadAll(r.Body)
		if got = string(text); err == nil {
			return
		}
		if _, again := io.ReadAll(r.Body); again == nil {
			t.Errorf("%s: what was refused (%v) is read", media, err)
		}
	})).ServeHTTP(httptest.NewRecorder(), request)
	return got, err
}

// TestWhatComesOfAPatchIsBounded decodes as handlers of patches do.
func TestWhatComesOfAPatchIsBounded(t *testing.T) {
	b, codecs := bodiesOfTheServer(t)
	json, found := runtime.SerializerInfoForMediaType(b.checkDecodedCodecs(codecs).SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !found {
		t.Fatal("it has no JSON")
	}
	object := func(amount string) string {
		return `{"apiVersion":"` + v1alpha1.GroupVersion.String() + `","kind":"Cluster","spec":{"resourceModels":[{"ranges":[{"name":"cpu","min":"` + amount + `","max":"2"}]}]}}`
	}
	for name, decoder := range map[string]runtime.Serializer{"strict": json.StrictSerializer, "lenient": json.Serializer} {
		codec := codecs.DecoderToVersion(decoder, v1alpha1.GroupVersion)
		if err := runtime.DecodeInto(codec, []byte(object(costly)), &v1alpha1.Cluster{}); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, want that it is refused", name, err)
		}
		cluster := &v1alpha1.Cluster{}
		if err := runtime.DecodeInto(codec, []byte(object("1")), cluster); err != nil || cluster.Spec.ResourceModels[0].Ranges[0].Min.Value() != 1 {
			t.Errorf("%s: %v, %v", name, cluster.Spec, err)
		}
	}
}
