// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/quantity"
)

// typesWithQuantities are what an answer is read into that may have quantities: of the
// objects that are read with their types, these are nodes and pods of a member, and what a
// hub knows of its clusters.
// Whoever reads a quantity with such a type parses it, and 1e-2000000000 takes hours.
type typesWithQuantities struct{ list, item any }

// quantitiesIn returns the types of what a request asks for, nil if there is no quantity in
// it.
func quantitiesIn(request *http.Request) *typesWithQuantities {
	resource, _ := resourcePath(request.URL.Path)
	if request.Method != http.MethodGet || len(resource) == 0 || len(resource) > 2 ||
		strings.Contains(request.Header.Get("Accept"), "as=") { // metadata, or a table
		return nil
	}
	in := func(version string) bool { return strings.Contains(request.URL.Path, version+"/") }
	switch name := resource[0]; {
	case name == "nodes" && in("api/v1"):
		return &typesWithQuantities{list: &corev1.NodeList{}, item: &corev1.Node{}}
	case name == "pods" && in("api/v1"):
		return &typesWithQuantities{list: &corev1.PodList{}, item: &corev1.Pod{}}
	case name == "managedclusters" && in(clusterv1.GroupVersion.String()):
		return &typesWithQuantities{list: &clusterv1.ManagedClusterList{}, item: &clusterv1.ManagedCluster{}}
	case name == "clusterconnections" && in(fleetv1alpha1.GroupVersion.String()):
		return &typesWithQuantities{list: &fleetv1alpha1.ClusterConnectionList{}, item: &fleetv1alpha1.ClusterConnection{}}
	}
	return nil
}

// checkQuantities has the body of a response fail at a quantity that cannot be parsed
// safely. What the client reads is written anew from what was looked at: it could not be
// told otherwise what a client makes of fields that are there twice.
func (q *typesWithQuantities) checkQuantities(response *http.Response, kind requestKind) error {
	if media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return fmt.Errorf("the response to %s %s is %q, want JSON", response.Request.Method, response.Request.URL.Path, response.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber() // so that numbers are written as they were
	body := &checkedBody{Closer: response.Body}
	switch kind {
	case kindWatch:
		body.next = func() (any, error) { return q.event(decoder) }
	case kindList:
		body.next = func() (any, error) { return checkedObject(decoder, q.list) }
	default:
		body.next = func() (any, error) { return checkedObject(decoder, q.item) }
	}
	response.Body, response.ContentLength = body, -1
	response.Header.Del("Content-Length")
	return nil
}

// event returns the next event of a watch.
func (q *typesWithQuantities) event(decoder *json.Decoder) (any, error) {
	var event struct {
		Type   string         `json:"type"`
		Object map[string]any `json:"object"`
	}
	if err := decoder.Decode(&event); err != nil {
		return nil, err //nolint:wrapcheck // io.EOF is one
	}
	return event, quantity.Check(event.Object, q.item)
}

// checkedObject returns the object that comes, which is read into the type of another.
func checkedObject(decoder *json.Decoder, like any) (any, error) {
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, err //nolint:wrapcheck // io.EOF is one
	}
	return object, quantity.Check(object, like)
}

// checkedBody is a body that consists of JSON values, one after the other.
type checkedBody struct {
	io.Closer
	next func() (any, error)
	left bytes.Reader
}

// Read implements io.Reader.
func (b *checkedBody) Read(into []byte) (int, error) {
	if b.left.Len() == 0 {
		value, err := b.next()
		if err != nil {
			return 0, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return 0, fmt.Errorf("writing what was looked at: %w", err)
		}
		b.left.Reset(append(text, '\n'))
	}
	return b.left.Read(into)
}
