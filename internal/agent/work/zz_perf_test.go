package work

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestPerf(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	counts := map[string]int{}
	var n atomic.Int64
	s := l.scene(t, "perf")
	s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper {
		return &writes{RoundTripper: rt, count: &n, fail: func(int64) failure { return failNot }}
	}})
	_ = counts
	_ = &mu
	run := func(prefix string, works, manifests int) {
		before := n.Load()
		start := time.Now()
		var g errgroup.Group
		g.SetLimit(16)
		for i := range works {
			var ms []string
			for j := range manifests {
				ms = append(ms, s.configMap(fmt.Sprintf("%s-%d-%d", prefix, i, j), "x"))
			}
			w := s.work(fmt.Sprintf("%s-%d", prefix, i), ms...)
			w.Finalizers = []string{workv1.FinalizerManifestWorkCleanup}
			g.Go(func() error { return s.client.Create(t.Context(), w) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		created := time.Since(start)
		for {
			list := &workv1.ManifestWorkList{}
			if err := s.client.List(t.Context(), list, client.InNamespace(s.cluster)); err != nil {
				t.Fatal(err)
			}
			done := 0
			for i := range list.Items {
				if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, "Available") {
					done++
				}
			}
			if done == works {
				break
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Logf("%s: %d x %d: created %s, status %s, agent writes %d", prefix, works, manifests, created, time.Since(start), n.Load()-before)
		<-time.After(time.Second)
		t.Logf("writes after settling %d", n.Load()-before)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Logf("heap %d KiB", m.HeapAlloc/1024)
		start = time.Now()
		before = n.Load()
		if err := s.client.DeleteAllOf(t.Context(), &workv1.ManifestWork{}, client.InNamespace(s.cluster)); err != nil {
			t.Fatal(err)
		}
		for {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
			if err := s.client.List(t.Context(), list, client.InNamespace(s.cluster)); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) == 0 {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
		t.Logf("deleted in %s, agent writes %d", time.Since(start), n.Load()-before)
		s.nothingLeft()
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Logf("heap after %d KiB", m.HeapAlloc/1024)
	}
	run("warm", 5, 1)
	run("many", 1000, 1)
	run("big", 10, 100)
}
