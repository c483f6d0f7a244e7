// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
)

// storedBytes counts the bytes of the revisions that are created at a server.
type storedBytes struct{ atomic.Int64 }

// ServeHTTP implements http.Handler.
func (s *storedBytes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return
	}
	object, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.Add(int64(len(object)))
	_, _ = w.Write(object)
}

// storeThrough has the revisions of a hub stored at a server, by a client of which the writes are damped.
func (h *hub) storeThrough(server *httptest.Server, clk *testingclock.FakeClock) {
	h.Helper()
	config, err := selfconflict.NewDamper(selfconflict.Limits{}, clk).DampWrites(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		h.Fatal(err)
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(fleetv1alpha1.SchemeGroupVersion.WithKind("PropagationRevision"), meta.RESTScopeRoot)
	if h.stages.shelf.client, err = client.New(config, client.Options{Scheme: h.Scheme(), Mapper: kinds}); err != nil {
		h.Fatal(err)
	}
}

// TestRevisionsOfANamespaceHaveAPace has a tenant change an override policy for thirty objects again and again, of
// each of which a megabyte is stored each time, and the one before deleted.
func TestRevisionsOfANamespaceHaveAPace(t *testing.T) {
	const objects, values, megabyte = 30, 10, 1 << 20
	stored := &storedBytes{}
	server := httptest.NewServer(stored)
	defer server.Close()
	clk := testingclock.NewFakeClock(time.Unix(1000, 0))
	h := newHub(t)
	h.storeThrough(server, clk)
	e := h.stages.entries[client.ObjectKeyFromObject(h.rollout)]
	content := make([]byte, megabyte)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	binding := func(n int) types.NamespacedName {
		return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("c", n, "-configmap")}
	}
	held := &selfconflict.HeldError{}
	for value := range values {
		for n := range objects {
			r := revision{name: fmt.Sprint(n, "-", value), number: int64(value), bytes: len(content)}
			_, err := h.stages.createRevision(t.Context(), e, binding(n), r, content)
			if errors.As(err, &held) {
				break
			}
			if err = errors.Join(err, h.stages.shelf.deleteRevisions(t.Context(), []revision{r})); err != nil {
				t.Fatal(err)
			}
		}
		clk.Step(time.Second)
	}
	if most := int64(64+2)*megabyte + values*megabyte/4; stored.Load() > most || stored.Load() < most/2 {
		t.Errorf("%d MiB of revisions are stored in %d seconds, want nearly %d", stored.Load()/megabyte, values, most/megabyte)
	}
	if held.Space != "shop" || held.After <= 0 {
		t.Errorf("the last one that waited: %+v", held)
	}
	if err := h.pass(); !errors.As(err, &held) {
		t.Errorf("the next change says %v, want that it waits", err)
	}
	school := types.NamespacedName{Namespace: "school", Name: "web-deployment"}
	if is, err := h.stages.createRevision(t.Context(), e, school, revision{name: "other"}, content); !is || err != nil {
		t.Errorf("a revision of another namespace is stored: %t, %v", is, err)
	}
	if is, err := h.stages.createRevision(selfconflict.WithSpaceApart(t.Context()), e, binding(0), revision{name: "wide"}, content); !is || err != nil {
		t.Errorf("one of an administrator is stored: %t, %v", is, err)
	}
	clk.Step(held.After)
	h.sent("when it may be stored", h.look(), "a 1 x2, b 1 x2")
}
