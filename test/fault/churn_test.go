// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

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

func (w *world) object(kind, name, value string) workv1.Manifest {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q},"data":{"value":%q}}`, kind, name, w.ns, value)
	if kind == "Widget" {
		text = fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":%q,"namespace":%q},"spec":{"value":%q}}`, kind, name, w.ns, value)
	}
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}}
}

func (w *world) work(name string, manifests ...workv1.Manifest) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.agent.Cluster(), Name: name}}
	work.Spec.Workload.Manifests = manifests
	return work
}

// put makes a work what it is to be, whether it is there or not.
func (w *world) put(ctx context.Context, work *workv1.ManifestWork) error {
	now := &workv1.ManifestWork{}
	if err := w.hub.Client.Get(ctx, client.ObjectKeyFromObject(work), now); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.hub.Client.Create(ctx, work)
	}
	now.Spec = work.Spec
	return w.hub.Client.Update(ctx, now)
}

// change changes one work at random.
func (w *world) change(ctx context.Context, random *dice) error {
	ctx, cancel := context.WithTimeout(ctx, changeMax)
	defer cancel()
	name := fmt.Sprintf("churn-%d", random.intN(churnWorks))
	if random.oneIn(8) {
		return client.IgnoreNotFound(w.hub.Client.Delete(ctx, w.work(name)))
	}
	var manifests []workv1.Manifest
	for i := range churnObjects {
		kind := w.kinds[(i+len(name))%len(w.kinds)].Kind
		if random.oneIn(2) {
			value := fmt.Sprintf("value%03d", random.intN(1000)) // base64 as it stands
			manifests = append(manifests, w.object(kind, fmt.Sprintf("%s-%d", name, i), value))
		}
	}
	if random.oneIn(3) || len(manifests) == 0 {
		manifests = append(manifests, w.object("ConfigMap", "shared", "same"))
	}
	return w.put(ctx, w.work(name, manifests...))
}

// during changes works all the while that something breaks, and before and
// after.
func (w *world) during(breaks func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	made, failed := 0, 0
	w.churns++
	random := newDice(w.t, w.churns)
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
	w.pause(time.Second)
	breaks()
	w.pause(time.Second)
	cancel()
	group.Wait()
	w.t.Logf("%d changes, %d that the hub did not take", made, failed)
}
