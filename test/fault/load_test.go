// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	// clients is how many requests of the test are under way at a time.
	clients = 16
)

func TestWorkChangesAllTheTime(t *testing.T) {
	w := newWorld(t)
	manifests := func(i int) []workv1.Manifest {
		list := []workv1.Manifest{w.object("ConfigMap", fmt.Sprintf("comes-and-goes-%d", i%7), "1")}
		for n := range 10 {
			list = append(list, w.object("ConfigMap", fmt.Sprintf("all-change-%d", n), fmt.Sprint(i)))
		}
		return list
	}
	w.must(w.hub.Client.Create(t.Context(), w.work("w", manifests(0)...)))
	w.settles()
	hub, member := w.toHub.writes.Load(), w.toMember.writes.Load()
	// The member is slower than the hub, whatever the speed of this machine, so
	// changes are overtaken.
	const slow = 300 * time.Millisecond
	w.toMember.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			time.Sleep(slow)
		}
		return false
	})
	start := time.Now()
	// As fast as the hub takes them.
	manyChanges := theExtent().changes
	for i := range manyChanges {
		body, err := json.Marshal(map[string]any{"spec": w.work("w", manifests(i+1)...).Spec})
		w.must(err)
		w.must(w.hub.Client.Patch(t.Context(), w.work("w"), client.RawPatch(types.MergePatchType, body)))
	}
	took := time.Since(start)
	w.toMember.misbehave(nil)
	w.settles()
	hub, member = w.toHub.writes.Load()-hub, w.toMember.writes.Load()-member
	t.Logf("%d changes of 11 objects each in %s: %d writes to the hub, %d to the member", manyChanges, took.Round(time.Millisecond), hub, member)
	// So many changes can have been carried out one after the other, and each writes
	// 11 objects and the record, before and after.
	carriedOut := int64(took/slow) + 3
	if hub > int64(manyChanges) || member > carriedOut*13 {
		t.Errorf("%d writes to the hub and %d to the member: changes that are overtaken are not to be carried out", hub, member)
	}
	w.clear()
}

func TestThousandWorksAreDeletedAtOnce(t *testing.T) {
	w := newWorld(t)
	manyWorks := theExtent().works
	all := func(do func(ctx context.Context, i int) error) {
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(clients)
		for i := range manyWorks {
			group.Go(func() error { return do(ctx, i) })
		}
		w.must(group.Wait())
	}
	all(func(ctx context.Context, i int) error {
		return w.hub.Client.Create(ctx, w.work(fmt.Sprintf("many-%d", i), w.object("ConfigMap", fmt.Sprintf("many-%d", i), "1")))
	})
	w.eventually("all are applied", w.exact)
	start := time.Now()
	w.must(w.hub.Client.DeleteAllOf(t.Context(), &workv1.ManifestWork{}, client.InNamespace(w.agent.Cluster())))
	w.pause(200 * time.Millisecond)
	w.kill() // in the midst of it
	w.start()
	w.clear()
	t.Logf("%d works were gone after %s", manyWorks, time.Since(start).Round(10*time.Millisecond))
}
