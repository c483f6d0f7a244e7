// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// identityPath is that of the namespace that every cluster has, and whose UID
// tells it from all others.
const identityPath = "api/v1/namespaces/kube-system"

// confirmTimeout is how long a cluster may take to prove who it is.
const confirmTimeout = 10 * time.Second

// ConfirmNotFound makes clients of a cluster hear of an answer 404 only after the
// cluster has proved who it is, by the same transport: what stands in front of an
// API server answers 404, too, while that is away, and who takes this for "it is
// gone" forgets what it has there. In the place of such an answer there is an
// error.
//
// The id is the UID of the namespace kube-system; if it is empty it is learned
// from the first answer. Who may not read that namespace is content with being
// told so by an API server.
func ConfirmNotFound(config *rest.Config, id string) error {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("understanding the address %q of the cluster: %w", config.Host, err)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &confirmingTransport{next: next, url: base.JoinPath(identityPath), id: id, turn: make(chan struct{}, 1)}
	})
	return nil
}

// ReadIdentity returns the UID of the namespace kube-system of a cluster, or "" if its
// API server does not let us ask. An answer of something that stands in front of
// the API server is an error.
func ReadIdentity(ctx context.Context, config *rest.Config) (string, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("understanding the address %q of the cluster: %w", config.Host, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", fmt.Errorf("connecting to the cluster %s: %w", config.Host, err)
	}
	cluster := &confirmingTransport{next: transport, url: base.JoinPath(identityPath)}
	err = cluster.verifyIdentity(ctx, "")
	return cluster.id, err
}

// confirmingTransport is a transport that confirms a 404. All who wait for that share one
// request, if it was sent after their own was answered.
type confirmingTransport struct {
	next http.RoundTripper
	url  *url.URL

	// asked is how many times it was asked so far, the present time included.
	asked atomic.Int64
	// turn is taken by whoever asks; the fields below it are theirs.
	turn chan struct{}
	id   string
	// problem is what came of the answered-th time.
	problem  error
	answered int64
}

// RoundTrip implements http.RoundTripper. An answer 404 that is not in the words of
// an API server may be that of something that went away before the cluster was
// asked who it is: so the request is repeated, and the cluster is asked once more if
// the answer is the same, as it is for paths that an API server does not know.
func (c *confirmingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusNotFound {
		return response, err
	}
	if err := c.confirmIdentity(request); err != nil {
		_ = response.Body.Close() // nobody wants to know what it says
		return nil, fmt.Errorf("ignoring the response 404: %w", err)
	}
	if isStatus(response) {
		return response, nil
	}
	_ = response.Body.Close()
	again, err := repeatRequest(request)
	if err != nil {
		return nil, fmt.Errorf("ignoring the response 404, which is not in the words of an API server: %w", err)
	}
	response, err = c.next.RoundTrip(again)
	if err != nil || response.StatusCode != http.StatusNotFound {
		return response, err
	}
	if err := c.confirmIdentity(again); err != nil {
		_ = response.Body.Close() // nobody wants to know what it says
		return nil, fmt.Errorf("ignoring the response 404: %w", err)
	}
	return response, nil
}

// isStatus reports whether a response is in the words of an API server. What was
// read of it can be read again.
func isStatus(response *http.Response) bool {
	content, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	switch content {
	case runtime.ContentTypeProtobuf, runtime.ContentTypeCBOR:
		return true
	case runtime.ContentTypeJSON:
		start, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
		response.Body = readAgain{Reader: io.MultiReader(bytes.NewReader(start), response.Body), Closer: response.Body}
		var answer answerObject
		return err == nil && json.Unmarshal(start, &answer) == nil && answer.Kind == "Status"
	default:
		return false
	}
}

// readAgain is a body of which the start was read.
type readAgain struct {
	io.Reader
	io.Closer
}

// repeatRequest returns a request that can be sent after another of the same content.
func repeatRequest(request *http.Request) (*http.Request, error) {
	again := request.Clone(request.Context())
	if request.Body == nil || request.Body == http.NoBody {
		return again, nil
	}
	if request.GetBody == nil {
		return nil, errors.New("the request cannot be repeated")
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeating the request: %w", err)
	}
	again.Body = body
	return again, nil
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (c *confirmingTransport) WrappedRoundTripper() http.RoundTripper { return c.next }

// confirmIdentity returns an error unless the cluster proves who it is after this was
// called.
func (c *confirmingTransport) confirmIdentity(request *http.Request) error {
	ctx := request.Context()
	before := c.asked.Load()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.answered > before {
		return c.problem // of a request that was sent meanwhile
	}
	this := c.asked.Add(1)
	problem := c.verifyIdentity(ctx, request.Header.Get("Authorization"))
	if ctx.Err() != nil {
		return ctx.Err() // says nothing about the cluster, so nobody else gets to hear it
	}
	c.problem = problem
	c.answered = this
	return problem
}

// verifyIdentity asks who the cluster is and compares that with who it has to be.
func (c *confirmingTransport) verifyIdentity(ctx context.Context, authorization string) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url.String(), nil)
	if err != nil {
		return fmt.Errorf("reading the identity of the cluster: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("reading the identity of the cluster: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	id, err := identityIn(response)
	switch {
	case err != nil:
		return err
	case c.id != "" && id != "" && id != c.id:
		return fmt.Errorf("the cluster that responds is %s, not %s", id, c.id)
	}
	if id != "" {
		c.id = id
	}
	return nil
}

// answerObject is what all answers of API servers say of themselves.
type answerObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
}

// identityIn returns the UID in an answer, or "" if an API server says that it is
// not for us to know.
func identityIn(response *http.Response) (string, error) {
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusForbidden {
		return "", fmt.Errorf("the server that responds has no namespace kube-system (%d), so it is not a healthy API server", response.StatusCode)
	}
	var answer answerObject
	err := json.NewDecoder(io.LimitReader(response.Body, answerBytesMax)).Decode(&answer)
	switch {
	case err == nil && response.StatusCode == http.StatusForbidden && answer.Kind == "Status":
		return "", nil
	case err == nil && response.StatusCode == http.StatusOK && answer.Metadata.UID != "":
		return answer.Metadata.UID, nil
	}
	return "", fmt.Errorf("the server that responds for the namespace kube-system (%d) is not an API server", response.StatusCode)
}
