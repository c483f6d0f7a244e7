// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/agent/clusterspec"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/agent/managednamespace"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hubOfOne lets a ManagedCluster c1 be listed and tells of writes.
func hubOfOne(t *testing.T) (url string, written <-chan struct{}) {
	t.Helper()
	writes := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mc := clusterv1.ManagedCluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster"},
			ObjectMeta: metav1.ObjectMeta{Name: "c1", ResourceVersion: "1"},
		}
		w.Header().Set("Content-Type", "application/json")
		var answer any = mc
		switch {
		case request.Method == http.MethodPut:
			writes <- struct{}{}
		case request.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		case request.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-request.Context().Done()
			return
		default:
			answer = clusterv1.ManagedClusterList{
				TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedClusterList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []clusterv1.ManagedCluster{mc},
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, writes
}

func TestPartsWaitForTheCaches(t *testing.T) {
	url, written := hubOfOne(t)
	hub, err := connect.HubCluster(&rest.Config{Host: url}, "c1")
	expect.NoError(t, err)
	member, err := connect.MemberCluster(&rest.Config{Host: url})
	expect.NoError(t, err)
	failed := make(chan error, 10)
	note := func(_ context.Context, err error) { failed <- err }
	ctx, cancel := context.WithCancel(t.Context())
	connection := &fleet.Connection{Name: "c1", HubHost: url, Hub: hub, Spoke: member}
	expect.NoError(t, (&clusterspec.SpecPart{Labels: map[string]string{"a": "b"}, Failed: note}).Engage(ctx, connection))
	expect.NoError(t, (&managednamespace.NamespacePart{Failed: note}).Engage(ctx, connection))
	time.Sleep(50 * time.Millisecond) // for parts that do not wait
	if len(failed) > 0 {
		t.Errorf("a part failed before the caches started: %v", <-failed)
	}
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	select {
	case <-written:
	case <-time.After(expect.Patience):
		t.Error("the label was not written when the cache had synced")
	}
	cancel()
	expect.NoError(t, <-ended)
}
