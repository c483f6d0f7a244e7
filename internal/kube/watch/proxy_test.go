// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// idleTime is after how long without an event the proxy ends a watch: longer
	// than what the reflector takes for a watch that did not work at all.
	idleTime = 1500 * time.Millisecond
	patience = 3 * time.Minute
)

// idleProxy passes requests on to an API server, and ends watches that are
// idle: in the middle of the answer if abrupt, and else as if it were complete.
func idleProxy(t *testing.T, config *rest.Config, abrupt bool) *rest.Config {
	target, err := url.Parse(config.Host)
	expect.NoError(t, err)
	transport, err := rest.TransportFor(config)
	expect.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(response *http.Response) error {
			query := response.Request.URL.Query()
			if query.Get("watch") != "" {
				body := newIdleBody(response.Body, abrupt)
				response.Body = body
				if query.Get("sendInitialEvents") == "" { // else the server may need a while to begin
					body.timer.Reset(idleTime)
				}
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

// idleBody is the answer to a watch, which ends when it is idle after its first byte.
type idleBody struct {
	io.ReadCloser
	timer *time.Timer
	end   error
}

func newIdleBody(body io.ReadCloser, abrupt bool) *idleBody {
	b := &idleBody{ReadCloser: body, timer: time.AfterFunc(patience, func() { _ = body.Close() }), end: io.EOF}
	if abrupt {
		b.end = io.ErrUnexpectedEOF
	}
	return b
}

func (b *idleBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(idleTime)
	}
	if err != nil {
		err = b.end
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}

// counted counts how a source is asked.
type counted struct {
	mu                      sync.Mutex
	lists, streams, resumed int
}

func (c *counted) count(source *ObjectSource[*metav1.PartialObjectMetadata]) {
	list, watch := source.list, source.watch
	source.list = func(ctx context.Context, options metav1.ListOptions) (found runtime.Object, err error) {
		c.add(&c.lists)
		return list(ctx, options)
	}
	source.watch = func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		if options.SendInitialEvents != nil {
			c.add(&c.streams)
		} else {
			c.add(&c.resumed)
		}
		return watch(ctx, options)
	}
}

func (c *counted) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counted) get() (lists, streams, resumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, c.streams, c.resumed
}

func TestAProxyThatEndsIdleWatches(t *testing.T) {
	_, config := servers.Start(t)
	direct, err := client.New(config, client.Options{})
	expect.NoError(t, err)
	for reason, test := range map[string]struct {
		name     string
		selector func(name string) ObjectSelector
		abrupt   bool
	}{
		"a watch of what has a label, in the middle of the answer": {
			"a", func(name string) ObjectSelector { return ObjectSelector{Labels: "watched=" + name} }, true,
		},
		"a watch of what has a label, as if it were complete": {
			"b", func(name string) ObjectSelector { return ObjectSelector{Labels: "watched=" + name} }, false,
		},
		"a watch of a single object, in the middle of the answer": {
			"c", func(name string) ObjectSelector { return ObjectSelector{Namespace: "default", Name: name} }, true,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			c, err := metadata.NewForConfig(idleProxy(t, config, test.abrupt))
			expect.NoError(t, err)
			source := MetadataSource(c, corev1.SchemeGroupVersion.WithResource("configmaps"), test.selector(test.name))
			var requests counted
			requests.count(&source)
			d := start(t, source)
			const cuts = 3
			expect.EventuallyTrue(t, patience, "that the watch is ended and resumed", func() bool {
				_, _, resumed := requests.get()
				return resumed >= cuts
			})
			configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: test.name, Labels: map[string]string{"watched": test.name},
			}}
			expect.NoError(t, direct.Create(t.Context(), configMap))
			expect.EventuallyTrue(t, patience, "that the new object is told", func() bool { return slices.Contains(d.peek(), "update "+test.name) })
			expect.NoError(t, direct.Delete(t.Context(), configMap))
			expect.EventuallyTrue(t, patience, "that the deletion is told", func() bool { return slices.Contains(d.peek(), "delete "+test.name) })
			if lists, streams, _ := requests.get(); lists+streams > 1 {
				t.Errorf("the objects were listed %d times and streamed %d times, want once: a watch that ended is resumed", lists, streams)
			}
			if slices.Contains(d.peek(), "failed") {
				t.Error("that a watch ended while nothing happened is told as a failure")
			}
		})
	}
}
