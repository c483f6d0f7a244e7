// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestWritesOfClientsAreCounted writes with a client of Kubernetes through a damper that
// lets one write an hour pass, to a server behind a path, as proxies have it.
func TestWritesOfClientsAreCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	type write func(context.Context, kubernetes.Interface) error
	patch := func(name string, o metav1.PatchOptions, subresources ...string) write {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("shop").Patch(ctx, name, types.MergePatchType, []byte(`{}`), o, subresources...)
			return err
		}
	}
	ofWeb := WrittenObject{GroupResource: schema.GroupResource{Resource: "configmaps"}, Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		second write
		held   *WrittenObject
	}{
		"the same object":               {second: patch("web", metav1.PatchOptions{}), held: &ofWeb},
		"the same by another verb":      {second: deletes("web"), held: &ofWeb},
		"another object":                {second: patch("other", metav1.PatchOptions{})},
		"its status":                    {second: patch("web", metav1.PatchOptions{}, "status")},
		"what would happen":             {second: patch("web", metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})},
		"an object that has no name":    {second: creates},
		"what is only read":             {second: reads("web")},
		"a Lease, which is a heartbeat": {second: renews},
		"what the damper itself reports": {second: func(ctx context.Context, c kubernetes.Interface) error {
			return patch("web", metav1.PatchOptions{})(context.WithValue(ctx, undampedWrites{}, true), c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDamper(Limits{Writes: 1, Window: time.Hour}, testingclock.NewFakeClock(time.Unix(0, 0)))
			config, err := d.DampWrites(&rest.Config{Host: server.URL + "/clusters/hub"})
			expect.NoError(t, err)
			c := kubernetes.NewForConfigOrDie(config)
			for _, first := range []write{patch("web", metav1.PatchOptions{}), renews} {
				if err := first(t.Context(), c); err != nil {
					t.Fatalf("the first write: %v", err)
				}
			}
			err = tc.second(t.Context(), c)
			held := &HeldError{}
			switch {
			case tc.held == nil && err != nil:
				t.Errorf("it is held back: %v", err)
			case tc.held != nil && (!errors.As(err, &held) || held.Object != *tc.held || held.After != time.Hour):
				t.Errorf("got %v, want %s held back for an hour", err, tc.held)
			}
		})
	}
}

func deletes(name string) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().ConfigMaps("shop").Delete(ctx, name, metav1.DeleteOptions{})
	}
}

func reads(name string) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().ConfigMaps("shop").Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func creates(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	return err
}

func renews(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoordinationV1().Leases("shop").Patch(ctx, "web", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	return err
}
