// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// probeTimeout is how long the API server may take to answer.
	probeTimeout = 10 * time.Second
	// answerBytesMax is how much of its answer is read.
	answerBytesMax = 4 << 10
)

// apiServer asks the member's API server about itself.
type apiServer struct {
	base *url.URL
	http *http.Client
}

func newAPIServer(config *rest.Config, client *http.Client) (*apiServer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("understanding the member's address %q: %w", config.Host, err)
	}
	return &apiServer{base: base, http: client}, nil
}

// checkHealth returns nil if the API server is well. One that does not let us ask
// is up, which has to do.
func (a *apiServer) checkHealth(ctx context.Context) error {
	status, body, err := a.requestPath(ctx, "livez")
	if err == nil && status == http.StatusNotFound {
		status, body, err = a.requestPath(ctx, "healthz")
	}
	switch {
	case err != nil:
		return err
	case status == http.StatusOK, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil
	}
	return fmt.Errorf("the API server reports: %d %s", status, strings.TrimSpace(string(body)))
}

// readVersion returns the version of Kubernetes, or nothing if we may not ask.
func (a *apiServer) readVersion(ctx context.Context) (string, error) {
	status, body, err := a.requestPath(ctx, "version")
	if err != nil || status != http.StatusOK {
		return "", err
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("understanding the version of the member's API server: %w", err)
	}
	return answer.GitVersion, nil
}

func (a *apiServer) requestPath(ctx context.Context, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base.JoinPath(path).String(), nil)
	if err != nil {
		return 0, nil, fmt.Errorf("requesting /%s from the member's API server: %w", path, err)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("requesting /%s from the member's API server: %w", path, err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	body, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the response of the member's API server to /%s: %w", path, err)
	}
	return response.StatusCode, body, nil
}
