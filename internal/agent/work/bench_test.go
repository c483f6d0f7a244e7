// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"crypto/sha256"
	"encoding/hex"
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
				s.awaitLists(1)
				before := live()
				s.fill(shape.works, shape.manifests)
				s.awaitLists(1 + shape.works*shape.manifests)
				after := live()
				b.ReportMetric(float64(after-before)/float64(shape.works*shape.manifests), "live-B/object")
				a.stop()
			}
		})
	}
}

// payloadBytes is how much data a ConfigMap has. They are hexadecimal digits,
// no two alike, so that whoever compresses them gets a half of it at the most.
const payloadBytes = 1024

// payload returns the data of a ConfigMap.
func payload(work, manifest int) string {
	var text strings.Builder
	for i := 0; text.Len() < payloadBytes; i++ {
		sum := sha256.Sum256(fmt.Append(nil, work, "/", manifest, "/", i))
		text.WriteString(hex.EncodeToString(sum[:]))
	}
	return text.String()
}

// awaitLists waits until the records list so many objects, and the agent has
// nothing left to do.
func (s *scene) awaitLists(objects int) {
	listed := -1
	for deadline := time.Now().Add(fillPatience); listed != objects && time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		list := &workv1.AppliedManifestWorkList{}
		if err := s.client.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
		listed = 0
		for i := range list.Items {
			if list.Items[i].Spec.AgentID == "agent-of-"+s.cluster {
				listed += len(list.Items[i].Status.AppliedResources)
			}
		}
	}
	if listed != objects {
		s.t.Fatalf("%d objects are listed after %s, and not %d", listed, fillPatience, objects)
	}
	<-time.After(settleTime)
}

// settleTime is how long an agent may take to hear what it wrote last.
const settleTime = time.Second

// fill delivers works and waits until all are applied.
func (s *scene) fill(works, manifests int) {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range works {
		var all []string
		for m := range manifests {
			all = append(all, s.configMap(fmt.Sprintf("c-%d-%d", i, m), payload(i, m)))
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
