// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// fillPatience is how long all works of a benchmark may take.
const fillPatience = 5 * time.Minute

// BenchmarkMemory applies a thousand objects and reports how many bytes of
// them stay in the heap.
func BenchmarkMemory(b *testing.B) {
	l := newLab(b)
	for _, shape := range []struct{ works, manifests int }{{1000, 1}, {10, 100}} {
		b.Run(fmt.Sprintf("%dx%d", shape.works, shape.manifests), func(b *testing.B) {
			for range b.N {
				s := l.scene(b, fmt.Sprintf("memory-%d-%d", shape.works, b.N))
				a := s.start(agentOptions{})
				s.create(s.work("first", s.configMap("first", "1")))
				s.condition("first", "Applied", metav1.ConditionTrue)
				before := live()
				s.fill(shape.works, shape.manifests)
				after := live()
				b.ReportMetric(float64(after-before)/float64(shape.works*shape.manifests), "live-B/object")
				a.stop()
			}
		})
	}
}

// fill delivers works and waits until all are applied.
func (s *scene) fill(works, manifests int) {
	payload := strings.Repeat("0123456789abcdef", 64)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range works {
		var all []string
		for m := range manifests {
			all = append(all, s.configMap(fmt.Sprintf("c-%d-%d", i, m), payload))
		}
		group.Go(func() error { return s.client.Create(s.t.Context(), s.work(fmt.Sprintf("w-%d", i), all...)) })
	}
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
	missing := -1
	for deadline := time.Now().Add(fillPatience); missing != 0 && time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		list := &workv1.ManifestWorkList{}
		if err := s.client.List(s.t.Context(), list, client.InNamespace(s.cluster)); err != nil {
			s.t.Fatal(err)
		}
		missing = 0
		for i := range list.Items {
			if !isApplied(&list.Items[i]) {
				missing++
			}
		}
	}
	if missing != 0 {
		s.t.Fatalf("%d works are not applied after %s", missing, fillPatience)
	}
}

// live returns how many bytes of the heap are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
