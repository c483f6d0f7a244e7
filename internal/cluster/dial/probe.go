// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// probeTimeout is how long the API server may take to say how it is, or to
	// give a token. One that takes long for each answer is slow, and not lost.
	probeTimeout = 10 * time.Second
	// answerBytesMax is how much of an answer is read.
	answerBytesMax = 64 << 10
)

// ProbeHealth asks the API server whether it is well, also while requests are blocked.
// A server that does not let us ask is up, and knows the token; any other answer
// is not that of an API server that is well.
func (t *Transport) ProbeHealth(ctx context.Context) ConnectionProblem {
	status, _, err := t.getPath(ctx, "livez")
	switch {
	case err != nil:
		return ExplainFailure(err)
	case status == http.StatusUnauthorized:
		return ConnectionProblem{
			fleetv1alpha1.ClusterConnectionReasonUnauthorized,
			"the cluster rejects the token (401); put a new one into the Secret",
		}
	case (status < http.StatusOK || status >= http.StatusMultipleChoices) && status != http.StatusForbidden:
		return ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonUnreachable, fmt.Sprintf("the API server's health check returns %d", status)}
	}
	return ConnectionProblem{}
}

// IdentifyCluster returns the UID of the namespace kube-system, which tells the cluster
// from all others, also while requests are blocked.
func (t *Transport) IdentifyCluster(ctx context.Context) (string, error) {
	var namespace struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	err := t.readJSON(ctx, identityPath, &namespace)
	return namespace.Metadata.UID, err
}

// ServesResource returns whether the API server serves a resource, also while requests are
// blocked.
func (t *Transport) ServesResource(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	path := "apis/" + resource.Group + "/" + resource.Version
	status, body, err := t.getPath(ctx, path)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNotFound:
		return false, nil
	case status != http.StatusOK:
		return false, fmt.Errorf("the API server returns %d for GET /%s; the push agent has to be allowed to ask which kinds there are (role system:discovery)", status, path)
	}
	var group struct {
		Resources []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(body, &group); err != nil {
		return false, fmt.Errorf("parsing the response to GET /%s: %w", path, err)
	}
	for _, served := range group.Resources {
		if served.Name == resource.Resource {
			return true, nil
		}
	}
	return false, nil
}

// CreateDefinition asks the API server to create a CustomResourceDefinition, also while requests
// are blocked, and returns the HTTP status of its answer.
func (t *Transport) CreateDefinition(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) (status int, err error) {
	body, err := json.Marshal(definition)
	if err != nil {
		return 0, fmt.Errorf("encoding the definition %q: %w", definition.Name, err)
	}
	status, _, err = t.sendOwnRequest(ctx, http.MethodPost, "apis/"+apiextensionsv1.SchemeGroupVersion.String()+"/customresourcedefinitions", body)
	return status, err
}

// readJSON decodes an answer; one other than 200 is an error.
func (t *Transport) readJSON(ctx context.Context, path string, into any) error {
	status, body, err := t.getPath(ctx, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the API server returns %d for GET /%s; the push agent needs get on the namespace kube-system", status, path)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("parsing the response to GET /%s: %w", path, err)
	}
	return nil
}

func (t *Transport) getPath(ctx context.Context, path string) (status int, body []byte, err error) {
	return t.sendOwnRequest(ctx, http.MethodGet, path, nil)
}

// sendOwnRequest sends one request of our own, with a body in JSON or none.
func (t *Transport) sendOwnRequest(ctx context.Context, method, path string, what []byte) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, t.base.JoinPath(path).String(), bytes.NewReader(what))
	if err != nil {
		return 0, nil, fmt.Errorf("asking for /%s: %w", path, err)
	}
	if what != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	response, err := t.sendWithToken(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	body, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	return response.StatusCode, body, err
}
