// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// relapsing is a member that refuses an object with another message each time, and its token for
// a moment when it is told to.
type relapsing struct {
	api       http.Handler
	refusals  atomic.Int64
	forgetful atomic.Bool
}

func (m *relapsing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":%d,"message":%q}`, code, message)
	}
	switch {
	case m.forgetful.Load(): // who asks doubts the token, and asks how the cluster is
		if r.URL.Path == "/livez" {
			m.forgetful.Store(false)
		}
		refuse(http.StatusUnauthorized, "no")
	case strings.Contains(r.URL.Path, "/configmaps/") && r.Method == http.MethodPatch:
		refuse(http.StatusBadRequest, fmt.Sprintf("this is refusal %d", m.refusals.Add(1)))
	default:
		m.api.ServeHTTP(w, r)
	}
}

// TestAMemberResetsNoLimitByReconnecting has a member that refuses its token for a moment as soon
// as the hub was told of a refusal, so that it is connected anew each time.
func TestAMemberResetsNoLimitByReconnecting(t *testing.T) {
	const lasts, bytes, connectionsMax = 40 * time.Second, 400 << 10, 8 // at once, and after 1, 3, 7, 15, 31, 63 and 123 seconds
	l := newLab(t)
	f := l.front("uid-of-c1")
	m := &relapsing{api: f.Behind}
	f.Behind = m
	l.accept("c1")
	l.secret("c1", l.token, f.CAData())
	l.start(local(), work.PartOptions{})
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a"},"data":{"a":%q}}`, strings.Repeat("x", bytes))
	expect.NoError(t, l.hub.client.Create(t.Context(), &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "a"},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}}},
	}))
	l.connection("c1", f.URL)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	start, version, written, message, lost := time.Now(), "", 0, "", 0
	for ; time.Since(start) < lasts || lost < 2 && time.Since(start) < patience; time.Sleep(20 * time.Millisecond) {
		w := &workv1.ManifestWork{}
		expect.NoError(t, l.hub.client.Get(t.Context(), client.ObjectKey{Namespace: "c1", Name: "a"}, w))
		if w.ResourceVersion == version {
			continue
		}
		version = w.ResourceVersion
		written++
		if s := w.Status.ResourceStatus.Manifests; len(s) > 0 && len(s[0].Conditions) > 0 && s[0].Conditions[0].Message != message {
			message = s[0].Conditions[0].Message
			lost++
			m.forgetful.Store(true)
			f.CloseClientConnections() // something fails, so that the agent asks how the cluster is
		}
	}
	if lost < 2 {
		t.Fatalf("the cluster was lost %d times: nothing is shown", lost)
	}
	if lost > connectionsMax {
		t.Errorf("in %s, the cluster was connected and lost %d times, want %d at most", time.Since(start), lost, connectionsMax)
	}
	// That it is created, gets a finalizer, and the answer to it; what a work has at once; what it has in that time.
	if most := 3*bytes + 256<<10 + bytes + int(time.Since(start).Seconds())*16<<10; written*bytes > most {
		t.Errorf("in %s, %d KiB were written, want %d at most", time.Since(start), written*bytes>>10, most>>10)
	}
}
