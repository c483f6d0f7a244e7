// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// HeldError says that an object was written too often to be written now, or too much in its namespace.
type HeldError struct {
	Object WrittenObject
	// Space is the namespace for which so much else was written; empty if it is for the object alone.
	Space string
	// After is when the next write passes, from when the error was made.
	After time.Duration
}

// Error is what users see of it. It is the same each time: conditions may have it, which
// would be written anew for each wait.
func (e *HeldError) Error() string {
	if e.Space != "" {
		return fmt.Sprintf("so many bytes were written in namespace %s that %s has to wait: its large objects are written less often", e.Space, e.Object)
	}
	return fmt.Sprintf("%s was written so often that the next write has to wait: something keeps reverting what is written", e.Object)
}

// DampWrites returns the configuration with the writes of all its clients counted, and held
// back when there are too many, or too many bytes in a namespace. Leases and Events are written as often as their authors
// like.
func (d *Damper) DampWrites(config *rest.Config) (*rest.Config, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	paths := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	damped := rest.CopyConfig(config)
	damped.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &dampedTransport{damper: d, paths: paths, prefix: strings.TrimSuffix(server.Path, "/"), next: next}
	})
	return damped, nil
}

// dampedTransport is what the requests of a client go through.
type dampedTransport struct {
	damper *Damper
	paths  request.RequestInfoFactory
	// prefix is where the API begins in the paths of the server.
	prefix string
	next   http.RoundTripper
}

// undampedWrites marks contexts whose writes are neither counted nor held back.
type undampedWrites struct{}

// RoundTrip implements http.RoundTripper.
func (t *dampedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	written, is := t.parseWrite(r)
	if !is || r.Context().Value(undampedWrites{}) != nil {
		return t.next.RoundTrip(r) //nolint:wrapcheck // it is the error of the request itself
	}
	if held := t.damper.holdRequest(r, written); held != nil {
		if r.Body != nil {
			_ = r.Body.Close() // its reader is in memory
		}
		return nil, held
	}
	response, err := t.next.RoundTrip(r)
	if err == nil {
		t.damper.countAnswer(r, written, response)
	}
	return response, err //nolint:wrapcheck // likewise
}

// holdRequest returns why a request has to wait; nil lets it pass, and counts it. What is created cannot
// be written twice.
func (d *Damper) holdRequest(r *http.Request, written objectPart) error {
	if space, is := spaceOf(r, written); is && r.Method != http.MethodDelete { // nothing keeps what goes
		if wait := d.spaces.WaitBeforeWrite(space, written.writeCause(), d.clock.Now()); wait > 0 {
			return &HeldError{Object: written.WrittenObject, Space: space.namespace, After: wait}
		}
	}
	if r.Method == http.MethodPost {
		return nil
	}
	if wait := d.admitWrite(written); wait > 0 {
		return &HeldError{Object: written.WrittenObject, After: wait}
	}
	return nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper, by which clients find the
// transport that connects.
func (t *dampedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// parseWrite returns which object a request writes, if it does; without a name if it creates one.
func (t *dampedTransport) parseWrite(r *http.Request) (objectPart, bool) {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return objectPart{}, false
	}
	if r.URL.Query().Has("dryRun") {
		return objectPart{}, false
	}
	location := *r.URL
	location.Path = strings.TrimPrefix(location.Path, t.prefix)
	info, err := t.paths.NewRequestInfo(&http.Request{Method: r.Method, URL: &location})
	if err != nil || !info.IsResourceRequest || info.Resource == "leases" || info.Resource == "events" || info.Name == "" && r.Method != http.MethodPost {
		return objectPart{}, false // the API server says what is wrong with it
	}
	object := WrittenObject{GroupResource: schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, Namespace: info.Namespace, Name: info.Name}
	return objectPart{WrittenObject: object, subresource: info.Subresource}, true
}
