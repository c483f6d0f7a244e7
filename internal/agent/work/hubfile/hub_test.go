// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// hub answers what an agent asks of one ManagedCluster. As a real one does, it
// leaves watches open when it takes rights away.
type hub struct {
	*httptest.Server
	cluster string

	mu       sync.Mutex
	version  int
	exists   bool
	accepts  bool
	readable bool // the ManagedCluster
	works    bool // the works are readable
	requests int
	watches  map[chan []byte]struct{}
}

func newHub(t *testing.T, cluster string) *hub {
	t.Helper()
	h := &hub{
		cluster: cluster, version: 1, exists: true, accepts: true, readable: true, works: true,
		watches: map[chan []byte]struct{}{},
	}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// change changes the hub, and tells the watches if the ManagedCluster changed.
func (h *hub) change(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	existed, accepted := h.exists, h.accepts
	change()
	if existed == h.exists && accepted == h.accepts {
		return
	}
	h.version++
	kind := "MODIFIED"
	switch {
	case !existed:
		kind = "ADDED"
	case !h.exists:
		kind = "DELETED"
	}
	event := h.event(kind)
	for watch := range h.watches {
		watch <- event
	}
}

func (h *hub) event(kind string) []byte {
	event, err := json.Marshal(map[string]any{"type": kind, "object": h.object()})
	if err != nil {
		panic(err)
	}
	return event
}

// missed returns what happened since the version that a watch begins with.
func (h *hub) missed(version string) [][]byte {
	switch {
	case version == "" || version == fmt.Sprint(h.version):
		return nil
	case h.exists:
		return [][]byte{h.event("MODIFIED")}
	default:
		return [][]byte{h.event("DELETED")}
	}
}

func (h *hub) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

func (h *hub) object() clusterv1.ManagedCluster {
	return clusterv1.ManagedCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: h.cluster, ResourceVersion: fmt.Sprint(h.version)},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: h.accepts},
	}
}

// ServeHTTP implements http.Handler.
func (h *hub) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	h.mu.Lock()
	h.requests++
	w.Header().Set("Content-Type", "application/json")
	ofWorks := strings.HasSuffix(request.URL.Path, "/manifestworks")
	switch {
	case ofWorks && !h.works, !ofWorks && !h.readable:
		w.WriteHeader(http.StatusForbidden)
		h.write(w, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden})
	case ofWorks:
		h.write(w, map[string]any{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWorkList", "items": []any{}})
	case request.URL.Query().Get("watch") != "":
		events := make(chan []byte, 10)
		for _, event := range h.missed(request.URL.Query().Get("resourceVersion")) {
			events <- event
		}
		h.watches[events] = struct{}{}
		h.mu.Unlock()
		h.watch(w, request, events)
		h.mu.Lock()
		delete(h.watches, events)
	case strings.HasSuffix(request.URL.Path, "/"+h.cluster) && h.exists:
		h.write(w, h.object())
	case strings.HasSuffix(request.URL.Path, "/managedclusters"):
		list := clusterv1.ManagedClusterList{
			TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedClusterList"},
			ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(h.version)},
		}
		if h.exists {
			list.Items = append(list.Items, h.object())
		}
		h.write(w, list)
	default:
		w.WriteHeader(http.StatusNotFound)
		h.write(w, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}
	h.mu.Unlock()
}

func (h *hub) write(w http.ResponseWriter, answer any) {
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return // who asked has gone
	}
}

func (h *hub) watch(w http.ResponseWriter, request *http.Request, events <-chan []byte) {
	controller := http.NewResponseController(w)
	for controller.Flush() == nil {
		select {
		case <-request.Context().Done():
			return
		case event := <-events:
			if _, err := w.Write(append(event, '\n')); err != nil {
				return
			}
		}
	}
}
