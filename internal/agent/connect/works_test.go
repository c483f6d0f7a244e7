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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/connect"
)

const member = "m"

// TestNobodyTakesACompressedWorkForAnEmptyOne: before, a Get through the
// ordinary client returned a work without manifests, and no error.
func TestNobodyTakesACompressedWorkForAnEmptyOne(t *testing.T) {
	_, config := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{filepath.Join("..", "..", "..", "config", "crd")}
	})
	work := createWork(t, config)
	hub := startHub(t, config)
	works, err := compressed.NewWorkStore(hub.GetCache())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the store and the client read all of it", func(t *testing.T) { testReadersOfWorks(t, hub, works, work) })
	t.Run("the cache keeps it compressed", func(t *testing.T) { testWorksAreCompressed(t, works, work.Name) })
	t.Run("the cache refuses to give it out", func(t *testing.T) { testCacheRefusesWorks(t, hub.GetCache(), client.ObjectKeyFromObject(work)) })
}

// createWork creates a work with a manifest in the namespace of the member.
func createWork(t *testing.T, config *rest.Config) *workv1.ManifestWork {
	t.Helper()
	scheme, err := connect.MemberScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: member, Name: "w"}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}`),
	}}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member}}, work} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return work
}

// startHub starts the hub's cache, until the test ends.
func startHub(t *testing.T, config *rest.Config) cluster.Cluster {
	t.Helper()
	hub, err := connect.HubCluster(config, member)
	if err != nil {
		t.Fatal(err)
	}
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

func testReadersOfWorks(t *testing.T, hub cluster.Cluster, works *compressed.ObjectStore[*workv1.ManifestWork], work *workv1.ManifestWork) {
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

func testWorksAreCompressed(t *testing.T, works *compressed.ObjectStore[*workv1.ManifestWork], name string) {
	informer, err := works.ObjectInformer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan any, 1)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { kept <- obj }}); err != nil {
		t.Fatal(err)
	}
	select {
	case item := <-kept:
		if work, ok := item.(*workv1.ManifestWork); !ok || len(work.Spec.Workload.Manifests) > 0 || work.Name != name {
			t.Errorf("the cache keeps %v, want it compressed", item)
		}
	case <-time.After(time.Minute):
		t.Error("the informer tells nothing")
	}
}

func testCacheRefusesWorks(t *testing.T, from cache.Cache, key client.ObjectKey) {
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
