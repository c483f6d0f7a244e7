// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// dice are what one test throws. They may be thrown by several goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

// NewDice returns the dice for the nth use of a test, and logs what a later run
// needs to throw the same.
func (m *WorldMaker) NewDice(t testing.TB, n int) *dice {
	t.Helper()
	t.Logf("replay with FAULT_ARGS='-seed %d'", m.Seed)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.Name())) // a hash takes all
	return &dice{random: rand.New(rand.NewPCG(m.Seed, hash.Sum64()+uint64(n)))}
}

// IntN returns a number of 0 to n-1.
func (d *dice) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// OneIn is true once in n times.
func (d *dice) OneIn(n int) bool { return d.IntN(n) == 0 }

const (
	// churnWorks is how many works change, and churnObjects how many objects each
	// of them may have.
	churnWorks   = 15
	churnObjects = 6
	// churnPause is the time between two changes.
	churnPause = 30 * time.Millisecond
	// changeMax is how long a change may take while the hub is away.
	changeMax = 2 * time.Second
)

// Object returns an object of the world as a manifest has it.
func (w *World) Object(kind, name, value string) workv1.Manifest {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q},"data":{"value":%q}}`, kind, name, w.Namespace, value)
	if kind == "Widget" {
		text = fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":%q,"namespace":%q},"spec":{"value":%q}}`, kind, name, w.Namespace, value)
	}
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}}
}

// Work returns a work of the world with the objects.
func (w *World) Work(name string, manifests ...workv1.Manifest) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.Agent.Cluster(), Name: name}}
	work.Spec.Workload.Manifests = manifests
	return work
}

// Put makes a work what it is to be, whether it is there or not.
func (w *World) Put(ctx context.Context, work *workv1.ManifestWork) error {
	now := &workv1.ManifestWork{}
	if err := w.Hub.Client.Get(ctx, client.ObjectKeyFromObject(work), now); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.Hub.Client.Create(ctx, work)
	}
	now.Spec = work.Spec
	return w.Hub.Client.Update(ctx, now)
}

// change changes one work at random.
func (w *World) change(ctx context.Context, random *dice) error {
	ctx, cancel := context.WithTimeout(ctx, changeMax)
	defer cancel()
	name := fmt.Sprintf("churn-%d", random.IntN(churnWorks))
	if random.OneIn(8) {
		return client.IgnoreNotFound(w.Hub.Client.Delete(ctx, w.Work(name)))
	}
	var manifests []workv1.Manifest
	for i := range churnObjects {
		kind := w.Kinds[(i+len(name))%len(w.Kinds)].Kind
		if random.OneIn(2) {
			value := fmt.Sprintf("value%03d", random.IntN(1000)) // base64 as it stands
			manifests = append(manifests, w.Object(kind, fmt.Sprintf("%s-%d", name, i), value))
		}
	}
	if random.OneIn(3) || len(manifests) == 0 {
		manifests = append(manifests, w.Object("ConfigMap", "shared", "same"))
	}
	return w.Put(ctx, w.Work(name, manifests...))
}

// During changes works all the while that something breaks, and before and
// after.
func (w *World) During(breaks func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	made, failed := 0, 0
	w.churns++
	random := w.maker.NewDice(w.t, w.churns)
	group.Go(func() {
		for ctx.Err() == nil {
			if err := w.change(ctx, random); err != nil {
				failed++
			} else {
				made++
			}
			timer := time.NewTimer(churnPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	})
	w.Pause(time.Second)
	breaks()
	w.Pause(time.Second)
	cancel()
	group.Wait()
	w.t.Logf("%d changes, %d that the hub did not take", made, failed)
}
