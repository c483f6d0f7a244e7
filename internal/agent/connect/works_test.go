// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const member = "m"

// cachedWork is a work on a hub, and what an agent keeps of it. Nobody takes it for an empty one:
// before, a Get through the ordinary client returned a work without manifests, and no error.
type cachedWork struct {
	hub   cluster.Cluster
	works *compressed.ObjectStore[*workv1.ManifestWork]
	work  *workv1.ManifestWork
}

// cachedWorks is the work of all tests.
var cachedWorks = env.NewFixtures(servers, func(t testing.TB) cachedWork {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{filepath.Join("..", "..", "..", "config", "crd")}
	})
	work := createWork(t, config)
	hub := startHub(t, config)
	works, err := compressed.NewWorkStore(hub.GetCache())
	expect.NoError(t, err)
	return cachedWork{hub: hub, works: works, work: work}
})

// createWork creates a work with a manifest in the namespace of the member.
func createWork(t testing.TB, config *rest.Config) *workv1.ManifestWork {
	t.Helper()
	scheme, err := connect.MemberScheme()
	expect.NoError(t, err)
	admin, err := client.New(config, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: member, Name: "w"}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}`),
	}}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member}}, work} {
		expect.NoError(t, admin.Create(t.Context(), object))
	}
	return work
}

// startHub starts the hub's cache, until the test ends.
func startHub(t testing.TB, config *rest.Config) cluster.Cluster {
	t.Helper()
	hub, err := connect.HubCluster(config, member)
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !hub.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	return hub
}

func TestTheStoreAndTheClientReadAllOfAWork(t *testing.T) {
	cached := cachedWorks.ShareFixture(t)
	hub, works, work := cached.hub, cached.works, cached.work
	key := client.ObjectKeyFromObject(work)
	read := map[string]func() (*workv1.ManifestWork, error){
		"the store": func() (*workv1.ManifestWork, error) { return works.Get(t.Context(), key) },
		"the client": func() (*workv1.ManifestWork, error) {
			found := &workv1.ManifestWork{}
			return found, hub.GetClient().Get(t.Context(), key, found)
		},
		"a list of the client": func() (*workv1.ManifestWork, error) {
			var list workv1.ManifestWorkList
			if err := hub.GetClient().List(t.Context(), &list, client.InNamespace(member)); err != nil {
				return nil, err
			}
			if len(list.Items) != 1 {
				return nil, fmt.Errorf("there are %d works, want 1", len(list.Items))
			}
			return &list.Items[0], nil
		},
	}
	for who, get := range read {
		found, err := get()
		if err != nil {
			t.Errorf("%s: %v", who, err)
			continue
		}
		if diff := cmp.Diff(work.Spec, found.Spec); diff != "" {
			t.Errorf("%s, -want +got:\n%s", who, diff)
		}
	}
}

func TestTheCacheKeepsAWorkCompressed(t *testing.T) {
	cached := cachedWorks.ShareFixture(t)
	informer, err := cached.works.ObjectInformer(t.Context())
	expect.NoError(t, err)
	kept := make(chan any, 1)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { kept <- obj }}); err != nil {
		t.Fatal(err)
	}
	select {
	case item := <-kept:
		if work, ok := item.(*workv1.ManifestWork); !ok || len(work.Spec.Workload.Manifests) > 0 || work.Name != cached.work.Name {
			t.Errorf("the cache keeps %v, want it compressed", item)
		}
	case <-time.After(time.Minute):
		t.Error("the informer tells nothing")
	}
}

func TestTheCacheRefusesToGiveAWorkOut(t *testing.T) {
	cached := cachedWorks.ShareFixture(t)
	from, key := cached.hub.GetCache(), client.ObjectKeyFromObject(cached.work)
	for what, try := range map[string]func() error{
		"a Get":  func() error { return from.Get(t.Context(), key, &workv1.ManifestWork{}) },
		"a List": func() error { return from.List(t.Context(), &workv1.ManifestWorkList{}) },
		"an informer": func() error {
			_, err := from.GetInformer(t.Context(), &workv1.ManifestWork{})
			return err
		},
		"an informer by kind": func() error {
			_, err := from.GetInformerForKind(t.Context(), workv1.GroupVersion.WithKind("ManifestWork"))
			return err
		},
	} {
		if err := try(); !errors.Is(err, compressed.ErrCompressed) {
			t.Errorf("%s of the cache: got error %v, want %v", what, err, compressed.ErrCompressed)
		}
	}
}
