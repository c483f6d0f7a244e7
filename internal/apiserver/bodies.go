// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/untrusted/quantity"
	"github.com/capstan-io/capstan/internal/untrusted/yamlalias"
)

// yamlBytesMax is how long a body in YAML may be: many times as long as a Cluster. Parsing
// it takes up some hundred times as much memory.
const yamlBytesMax = 256 << 10

// bodyChecker refuses the bodies of requests that are costly to decode, before they are decoded:
// quantities that take hours to parse, and aliases of YAML that become gigabytes. The
// server's library bounds how many nodes aliases stand for, but not how long these are.
type bodyChecker struct{ places *quantity.Places }

// newBodyChecker returns what looks at bodies with kinds of the scheme.
func newBodyChecker(kinds *runtime.Scheme) (*bodyChecker, error) {
	places, err := quantity.PlacesOf(kinds)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the kind
	}
	return &bodyChecker{places: places}, nil
}

// checkBodyHandler checks a body while next reads it, which gets the reason as the error of that. A
// patch that is applied counts as YAML, even if it is JSON.
func (b *bodyChecker) checkBodyHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var checked io.Reader = &scannedReader{from: r.Body, quantities: quantity.NewScanner(b.places)}
		if strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "yaml") {
			checked = b.yamlReader(r.Body)
		}
		bounded := r.WithContext(r.Context())
		bounded.Body = struct {
			io.Reader
			io.Closer
		}{checked, r.Body}
		next.ServeHTTP(w, bounded)
	})
}

// scannedReader reads JSON, of any length, up to a quantity that is costly to parse.
type scannedReader struct {
	from       io.Reader
	quantities *quantity.Scanner
}

// Read implements io.Reader.
func (s *scannedReader) Read(into []byte) (int, error) {
	n, err := s.from.Read(into)
	if costly := s.quantities.ScanBytes(into[:n]); costly != nil {
		return 0, refusedBodyError(costly)
	}
	return n, err //nolint:wrapcheck // io.EOF is one
}

// yamlReader reads all of a text in YAML before it gives a byte of it.
func (b *bodyChecker) yamlReader(from io.Reader) io.Reader {
	return readerFunc(sync.OnceValues(func() (io.Reader, error) {
		text, err := io.ReadAll(io.LimitReader(from, yamlBytesMax+1))
		if err != nil {
			return nil, err
		}
		return bytes.NewReader(text), b.checkYAML(text)
	}))
}

// readerFunc reads from what it returns, if that has no error.
type readerFunc func() (io.Reader, error)

// Read implements io.Reader.
func (f readerFunc) Read(into []byte) (int, error) {
	from, err := f()
	if err != nil {
		return 0, err
	}
	return from.Read(into)
}

func (b *bodyChecker) checkYAML(text []byte) error {
	if len(text) > yamlBytesMax {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has more than %d bytes of YAML; send JSON", yamlBytesMax))
	}
	if err := yamlalias.RefuseAliases(text); err != nil {
		return refusedBodyError(err)
	}
	written, err := yaml.YAMLToJSON(text)
	if err != nil {
		return refusedBodyError(err)
	}
	return b.checkJSON(written)
}

func (b *bodyChecker) checkJSON(text []byte) error {
	if err := quantity.NewScanner(b.places).ScanBytes(text); err != nil {
		return refusedBodyError(err)
	}
	return nil
}

func refusedBodyError(why error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the body of the request is refused: %v", why))
}

// checkDecodedCodecs returns codecs that check what they decode of JSON, too: a JSON Patch can copy a
// text to where it is a quantity, so that only what comes of the patch shows that.
func (b *bodyChecker) checkDecodedCodecs(of runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return checkedCodecs{NegotiatedSerializer: of, check: b.checkJSON}
}

type checkedCodecs struct {
	runtime.NegotiatedSerializer
	check func(text []byte) error
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c checkedCodecs) SupportedMediaTypes() []runtime.SerializerInfo {
	types := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range types {
		if t := &types[i]; t.MediaType == runtime.ContentTypeJSON {
			t.Serializer = checkedSerializer{t.Serializer, c.check}
			t.StrictSerializer = checkedSerializer{t.StrictSerializer, c.check}
		}
	}
	return types
}

type checkedSerializer struct {
	runtime.Serializer
	check func(text []byte) error
}

// Decode implements runtime.Decoder.
func (s checkedSerializer) Decode(text []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if err := s.check(text); err != nil {
		return nil, nil, err
	}
	return s.Serializer.Decode(text, defaults, into) //nolint:wrapcheck // the server tells errors apart
}
