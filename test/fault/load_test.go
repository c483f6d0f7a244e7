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
	w := worlds.NewWorld(t)
	manifests := func(i int) []workv1.Manifest {
		list := []workv1.Manifest{w.Object("ConfigMap", fmt.Sprintf("comes-and-goes-%d", i%7), "1")}
		for n := range 10 {
			list = append(list, w.Object("ConfigMap", fmt.Sprintf("all-change-%d", n), fmt.Sprint(i)))
		}
		return list
	}
	w.Must(w.Hub.Client.Create(t.Context(), w.Work("w", manifests(0)...)))
	w.Settles()
	hub, member := w.ToHub.Writes.Load(), w.ToMember.Writes.Load()
	// The member is slower than the hub, whatever the speed of this machine, so
	// changes are overtaken.
	const slow = 300 * time.Millisecond
	w.ToMember.Misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			time.Sleep(slow)
		}
		return false
	})
	start := time.Now()
	// As fast as the hub takes them.
	manyChanges := theExtent().changes
	for i := range manyChanges {
		body, err := json.Marshal(map[string]any{"spec": w.Work("w", manifests(i+1)...).Spec})
		w.Must(err)
		w.Must(w.Hub.Client.Patch(t.Context(), w.Work("w"), client.RawPatch(types.MergePatchType, body)))
	}
	took := time.Since(start)
	w.ToMember.Misbehave(nil)
	w.Settles()
	hub, member = w.ToHub.Writes.Load()-hub, w.ToMember.Writes.Load()-member
	t.Logf("%d changes of 11 objects each in %s: %d writes to the hub, %d to the member", manyChanges, took.Round(time.Millisecond), hub, member)
	// So many changes can have been carried out one after the other, and each writes
	// 11 objects and the record, before and after.
	carriedOut := int64(took/slow) + 3
	if hub > int64(manyChanges) || member > carriedOut*13 {
		t.Errorf("%d writes to the hub and %d to the member: changes that are overtaken are not to be carried out", hub, member)
	}
	w.Clear()
}

func TestThousandWorksAreDeletedAtOnce(t *testing.T) {
	w := worlds.NewWorld(t)
	manyWorks := theExtent().works
	all := func(do func(ctx context.Context, i int) error) {
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(clients)
		for i := range manyWorks {
			group.Go(func() error { return do(ctx, i) })
		}
		w.Must(group.Wait())
	}
	all(func(ctx context.Context, i int) error {
		return w.Hub.Client.Create(ctx, w.Work(fmt.Sprintf("many-%d", i), w.Object("ConfigMap", fmt.Sprintf("many-%d", i), "1")))
	})
	w.Eventually("all are applied", w.Exact)
	start := time.Now()
	w.Must(w.Hub.Client.DeleteAllOf(t.Context(), &workv1.ManifestWork{}, client.InNamespace(w.Agent.Cluster())))
	w.Pause(200 * time.Millisecond)
	w.Kill() // in the midst of it
	w.Start()
	w.Clear()
	t.Logf("%d works were gone after %s", manyWorks, time.Since(start).Round(10*time.Millisecond))
}
