// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// hubAt is a manager of a hub of which only the address is known.
type hubAt struct {
	ctrl.Manager

	url string
}

func (h hubAt) GetConfig() *rest.Config     { return &rest.Config{Host: h.url} }
func (h hubAt) GetHTTPClient() *http.Client { return http.DefaultClient }

// TestObjectsAreDecodedWhenThereIsRoom reads an object that takes some ten megabytes once it is
// decoded, while others have decoded as much as there is room for.
func TestObjectsAreDecodedWhenThereIsRoom(t *testing.T) {
	dense := `{"apiVersion":"example.com/v1","kind":"Table","metadata":{"name":"t"},"rows":[` + strings.Repeat("{},", 100_000) + `{}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, dense)
	}))
	defer server.Close()
	clients, err := newClients(hubAt{url: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	memory := decoding.NewMemory(clock.RealClock{})
	for _, namespace := range []string{"one", "two"} {
		ctx, end := memory.BeginReservation(t.Context(), namespace)
		defer end()
		if err := decoding.TakeMemory(ctx, 192<<20); err != nil {
			t.Fatal(err)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ctx, end := memory.BeginReservation(soon, "tenant")
	defer end()
	tables := clients.objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "tables"})
	if _, err := tables.Get(ctx, "t", metav1.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it waits for room", err)
	}
}
