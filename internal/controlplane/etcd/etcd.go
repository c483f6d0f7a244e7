// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd asks a member of etcd for a snapshot of what is stored.
//
// It speaks the JSON form of etcd's API, which members serve next to gRPC: what
// is asked here is little, and nothing else in capstan needs gRPC.
package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// errorMax is how much of an answer is shown that is none of etcd's.
	errorMax = 512
	// headerTimeout is how long a member may take to begin an answer.
	headerTimeout = 30 * time.Second
)

// MemberClient asks one member.
type MemberClient struct {
	address string
	http    *http.Client
}

// NewMemberClient returns a client for the member at an address, HOST:PORT, that is
// reached by dial. The configuration says what certificate the member has to
// have, and which one the client has.
func NewMemberClient(address string, dial func(context.Context) (net.Conn, error), config *tls.Config) *MemberClient {
	transport := &http.Transport{
		TLSClientConfig:       config,
		ResponseHeaderTimeout: headerTimeout,
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	return &MemberClient{address: address, http: &http.Client{Transport: transport}}
}

// Close ends connections that are not in use.
func (c *MemberClient) Close() { c.http.CloseIdleConnections() }

// CurrentRevision returns the revision of the last change. The member answers once it
// has all changes that a majority has, so that its snapshot has them, too.
func (c *MemberClient) CurrentRevision(ctx context.Context) (int64, error) {
	// Of the key before all others; which one does not matter.
	body, err := c.postRequest(ctx, "/v3/kv/range", `{"key":"AA==","count_only":true}`)
	if err != nil {
		return 0, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	answer := struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}{}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("reading the revision that etcd is at: %w", err)
	}
	return answer.Header.Revision, nil
}

// postRequest sends a request and returns the answer, for the caller to close.
func (c *MemberClient) postRequest(ctx context.Context, path, question string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.address+path, strings.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("asking etcd: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking etcd: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, errorMax))
	if err != nil {
		return nil, fmt.Errorf("asking etcd for %s: it answers %s: %w", path, response.Status, err)
	}
	return nil, fmt.Errorf("asking etcd for %s: it answers %s: %s", path, response.Status, bytes.TrimSpace(text))
}
