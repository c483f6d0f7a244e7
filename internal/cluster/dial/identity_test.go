// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTextsOfIdentityAreShort has a member answer reads, writes, lists and watches with names, UIDs
// and versions that are longer than any: an agent that kept them of each object ran out of memory.
func TestTextsOfIdentityAreShort(t *testing.T) {
	t.Parallel()
	answers := map[string]struct{ method, path, around string }{
		"a read":        {http.MethodGet, objectPath, "%s"},
		"a write":       {http.MethodPatch, objectPath, "%s"},
		"a creation":    {http.MethodPost, listPath, "%s"},
		"a list":        {http.MethodGet, listPath, `{"items":[{},%s]}`},
		"a list's own":  {http.MethodGet, listPath, "%s"},
		"a watch":       {http.MethodGet, watchPath, `{"type":"ADDED","object":%s}`},
		"a second time": {http.MethodGet, watchPath, `{"type":"ADDED","object":{}}{"type":"BOOKMARK","object":%s}`},
	}
	fields := map[string]string{
		"the kind": `{"kind":"%s"}`, "the version of the kind": `{"apiVersion":"%s"}`,
		"the namespace": `{"metadata":{"namespace":"%s"}}`, "the name": `{"metadata":{"labels":{"uid":"a"},"name":"%s"}}`,
		"the UID": `{"metadata":{"uid":"%s","uid":"a"}}`, "the version": `{"metadata":{"resourceVersion":"%s"}}`,
		"an escaped field": `{"met\u0061data":{"u\u0069d":"%s"}}`, "another case": `{"Metadata":{"UID":"%s"}}`,
	}
	for answer, a := range answers {
		for field, object := range fields {
			t.Run(answer+", "+field, func(t *testing.T) {
				t.Parallel()
				for length, refused := range map[int]bool{identityBytesMax: false, identityBytesMax + 1: true, 1 << 20: true} {
					text := fmt.Sprintf(a.around, fmt.Sprintf(object, strings.Repeat("x", length)))
					err := answerOf(t, a.method, a.path, text)
					if (err != nil) != refused || refused && !strings.Contains(err.Error(), "it has more than 1024 bytes") {
						t.Errorf("%d bytes: the error is %v", length, err)
					}
				}
			})
		}
	}
}

// TestOtherTextsAreAsLongAsTheyAre: what is no identity is anybody's.
func TestOtherTextsAreAsLongAsTheyAre(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, text := range []string{
		`{"data":{"uid":%q,"name":"a"}}`, `{"metadata":{"annotations":{"uid":%q},"name":"a"}}`, `{"spec":{"template":{"metadata":{"name":%q}}}}`,
		`{"items":[{"data":{"name":%q}}]}`, `{"status":{"kind":%q}}`,
	} {
		if err := answerOf(t, http.MethodGet, objectPath, fmt.Sprintf(text, long)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// answerOf returns why an answer of a member is refused, nil if it is not.
func answerOf(t *testing.T, method, path, text string) error {
	t.Helper()
	server, ca := member(t, says("application/json", text))
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
