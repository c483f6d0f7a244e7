// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// probeTimeout is how long the API server may take to say how it is, or to
	// give a token. One that takes long for each answer is slow, and not lost.
	probeTimeout = 10 * time.Second
	// answerBytesMax is how much of an answer is read.
	answerBytesMax = 64 << 10
)

// finding is why something does not work, as conditions tell it. The zero
// value is that it works.
type finding struct{ reason, message string }

func (f finding) well() bool { return f.reason == "" }

// probe asks the API server whether it is well, also if the way is blocked. A
// server that does not let us ask is up, and knows the token.
func (w *way) probe(ctx context.Context) finding {
	status, _, err := w.get(ctx, "livez")
	switch {
	case err != nil:
		return explain(err)
	case status == http.StatusUnauthorized:
		return finding{
			fleetv1alpha1.ClusterConnectionReasonUnauthorized,
			"the cluster answers 401: it does not know the token, or not any more; put a new one into the Secret",
		}
	case status >= http.StatusInternalServerError:
		return finding{fleetv1alpha1.ClusterConnectionReasonUnreachable, fmt.Sprintf("the API server answers %d to the question whether it is well", status)}
	}
	return finding{}
}

// identify returns the UID of the namespace kube-system.
func (w *way) identify(ctx context.Context) (string, error) {
	var namespace struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	err := w.read(ctx, "api/v1/namespaces/kube-system", &namespace)
	return namespace.Metadata.UID, err
}

// read decodes an answer; one other than 200 is an error.
func (w *way) read(ctx context.Context, path string, into any) error {
	status, body, err := w.get(ctx, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the API server answers %d to GET /%s; the push agent needs get of the namespace kube-system", status, path)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("understanding the answer to GET /%s: %w", path, err)
	}
	return nil
}

func (w *way) get(ctx context.Context, path string) (status int, body []byte, err error) {
	return w.ask(ctx, http.MethodGet, path, nil)
}

// ask sends one request of our own, with a body in JSON or none.
func (w *way) ask(ctx context.Context, method, path string, what []byte) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, w.base.JoinPath(path).String(), bytes.NewReader(what))
	if err != nil {
		return 0, nil, fmt.Errorf("asking for /%s: %w", path, err)
	}
	if what != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	response, err := w.send(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	body, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	return response.StatusCode, body, err
}

// explain says why a request failed, in words that do not change from one
// attempt to the next: no ports or streams of ours, no times.
func explain(err error) finding {
	var (
		forbidden *ForbiddenAddressError
		untrusted *tls.CertificateVerificationError
		network   *net.OpError
		name      *net.DNSError
		link      *url.Error
		number    syscall.Errno
		stream    http2.StreamError
		away      http2.GoAwayError
	)
	unreachable := func(text string) finding {
		return finding{fleetv1alpha1.ClusterConnectionReasonUnreachable, "the API server is not reached: " + text}
	}
	switch {
	case errors.As(err, &forbidden):
		return finding{fleetv1alpha1.ClusterConnectionReasonForbiddenAddress, forbidden.Error()}
	case errors.As(err, &untrusted):
		return finding{
			fleetv1alpha1.ClusterConnectionReasonUntrusted,
			"the certificate of the API server is not trusted: " + untrusted.Err.Error() + "; caBundle in the Secret has to verify it",
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return unreachable(fmt.Sprintf("no answer within %s", probeTimeout))
	case errors.As(err, &name):
		return unreachable(fmt.Sprintf("the name %q cannot be resolved", name.Name))
	case errors.As(err, &stream):
		return unreachable("it ended the request: " + stream.Code.String())
	case errors.As(err, &away):
		return unreachable("it ended the connection: " + away.ErrCode.String())
	case errors.As(err, &number):
		return unreachable(number.Error())
	case errors.As(err, &network):
		return unreachable(network.Op + ": " + network.Err.Error())
	case errors.As(err, &link):
		return unreachable(link.Err.Error())
	}
	return unreachable(err.Error())
}
