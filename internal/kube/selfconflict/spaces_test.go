// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestLargeObjectsOfANamespaceAreSpaced has the hub write thirty large objects of a tenant again and again, as
// each change of what they have in common makes it: those of ManifestWorkReplicaSets, Placements and
// templates alike.
func TestLargeObjectsOfANamespaceAreSpaced(t *testing.T) {
	const large, megabyte, seconds = 4 << 20, 1 << 20, 600
	object := append(bytes.Repeat([]byte(" "), large), "{}"...)
	var answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answers.Add(large)
		_, _ = w.Write(object)
	}))
	defer server.Close()
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	config, err := NewDamper(Limits{}, clk).DampWrites(&rest.Config{Host: server.URL, QPS: -1})
	expect.NoError(t, err)
	hub := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
	writes := func(ctx context.Context, verb, path string) error {
		_, err := hub.Verb(verb).AbsPath(path).SetHeader("Content-Type", "application/merge-patch+json").Body([]byte(`{}`)).DoRaw(ctx)
		return err //nolint:wrapcheck // the test looks at it
	}
	kinds := []string{"/apis/work.open-cluster-management.io/v1alpha1/namespaces/shop/manifestworkreplicasets/%d/status", "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/shop/placements/%d/status", "/api/v1/namespaces/shop/configmaps/%d"}
	held := &HeldError{}
	for range seconds {
		for n := range 30 {
			if err := writes(t.Context(), http.MethodPatch, fmt.Sprintf(kinds[n%len(kinds)], n)); errors.As(err, &held) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		clk.Step(time.Second)
	}
	answered := answers.Load()
	if most := int64(64*megabyte + seconds*megabyte/4 + 2*large); answered > most || answered < most/2 {
		t.Errorf("%d MiB are written in ten minutes, want nearly %d", answered/megabyte, most/megabyte)
	}
	if held.Space != "shop" || held.After <= 0 || held.After > time.Minute {
		t.Errorf("the last one that waited: %+v", held)
	}
	for path, waits := range map[string]bool{
		"PUT /api/v1/namespaces/shop/configmaps/small":                                             true,
		"POST /api/v1/namespaces/shop/configmaps":                                                  true,
		"PATCH /api/v1/namespaces/other/configmaps/large":                                          false,
		"PATCH /api/v1/nodes/large":                                                                false,
		"DELETE /api/v1/namespaces/shop/configmaps/large":                                          false,
		"PATCH /apis/coordination.k8s.io/v1/namespaces/shop/leases/lock":                           false,
		"PATCH /apis/work.open-cluster-management.io/v1/namespaces/shop/manifestworks/metered":     false,
		"PATCH /apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/metered":            false,
		"PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/policy/status": true,
	} {
		for !errors.As(writes(t.Context(), http.MethodPatch, "/api/v1/namespaces/shop/configmaps/0"), &held) {
		}
		verb, where, _ := strings.Cut(path, " ")
		if err := writes(t.Context(), verb, where); errors.As(err, &held) != waits {
			t.Errorf("%s: %v, want it held back: %t", path, err, waits)
		}
	}
	if err := writes(WithSpaceApart(t.Context()), http.MethodPatch, "/api/v1/namespaces/shop/configmaps/administrator"); err != nil {
		t.Errorf("an administrator waits for the users of the namespace: %v", err)
	}
	clk.Step(2 * time.Minute) // changes of 8 MiB at half of the pace, as all that was written is still too much
	if err := writes(t.Context(), http.MethodPatch, "/api/v1/namespaces/shop/configmaps/last"); err != nil {
		t.Errorf("what is as it stays is not written: %v", err)
	}
}

// TestStatusesHoldUpNoChange has what a cluster reports about templates written without end.
func TestStatusesHoldUpNoChange(t *testing.T) {
	object := append(bytes.Repeat([]byte(" "), 4<<20), "{}"...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(object)
	}))
	defer server.Close()
	config, err := NewDamper(Limits{}, testingclock.NewFakeClock(time.Unix(0, 0))).DampWrites(&rest.Config{Host: server.URL, QPS: -1})
	expect.NoError(t, err)
	hub := kubernetes.NewForConfigOrDie(config).AppsV1().RESTClient()
	patch := func(name, part string) error {
		_, err := hub.Patch(types.MergePatchType).AbsPath("/apis/apps/v1/namespaces/shop/deployments/" + name + part).Body([]byte(`{}`)).DoRaw(t.Context())
		return err //nolint:wrapcheck // the test looks at it
	}
	held := &HeldError{}
	for n := 0; ; n++ {
		if err := patch(fmt.Sprint(n), "/status"); errors.As(err, &held) {
			break
		} else if err != nil || n > 100 {
			t.Fatalf("status %d is not held back: %v", n, err)
		}
	}
	if err := patch("web", ""); err != nil {
		t.Errorf("a change waits for statuses: %v", err)
	}
}
