// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/kube/served"
)

// TestKindsThatNobodyServesShareALook is about a tenant whose policies name kinds that
// it has invented: they must not cost a goroutine and a request each, nor keep others
// from a kind whose definition comes later.
func TestKindsThatNobodyServesShareALook(t *testing.T) {
	const invented, users = 10_000, 100
	widgets := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	one := Key{Kind: widgets, Name: types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "one"}}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: one.Name.Namespace, Name: one.Name.Name}}
	object.SetGroupVersionKind(widgets)

	hub := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	installed := make(chan struct{})
	hub.PrependReactor("get", "group", func(clienttesting.Action) (bool, kuberuntime.Object, error) {
		select {
		case <-installed:
			hub.Resources = []*metav1.APIResourceList{{GroupVersion: "example.io/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}}}}
		default:
		}
		return false, nil, nil
	})
	knowsAll := meta.NewDefaultRESTMapper(nil)
	knowsAll.Add(widgets, meta.RESTScopeNamespace)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	kinds := served.NewKindCache(hub, clk)
	changed := make(chan Key, 1)
	watched := NewTemplates(TemplateOptions{
		Client: metadatafake.NewSimpleMetadataClient(scheme, object), Mapper: kinds.WrapMapper(knowsAll), Served: kinds, Clock: clk,
		Changed: func(key Key) { changed <- key },
	})

	before := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watched.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	watched.UseKinds("another tenant", widgets)
	for user := range users {
		watched.UseKinds(fmt.Sprintf("policy %d", user), inventedKinds(user, invented/users)...)
	}
	for !watched.Synced() { // each has been looked for
		time.Sleep(time.Millisecond)
	}
	if more := runtime.NumGoroutine() - before; more > invented/100 {
		t.Errorf("%d kinds that nobody serves have %d goroutines", invented, more)
	}
	// A look is a request for the groups and one for their resources.
	if requests := len(hub.Actions()); requests > 2 {
		t.Errorf("the hub was asked %d times about kinds that were all named at once, want one look", requests)
	}

	close(installed)
	looks := 0
	for arrived := false; !arrived; looks++ {
		clk.Step(unservedMax)
		select {
		case key := <-changed:
			if arrived = true; key != one {
				t.Errorf("told %v, want %v", key, one)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	if requests := len(hub.Actions()); requests > 2+2*looks {
		t.Errorf("the hub was asked %d times in %d looks", requests, looks)
	}
	for user := range users {
		watched.UseKinds(fmt.Sprintf("policy %d", user))
	}
	if left := len(watched.listUnwatched()); left > 0 {
		t.Errorf("%d kinds that nobody uses any more are looked for", left)
	}
}

// inventedKinds are so many kinds that only one user names.
func inventedKinds(user, count int) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for i := range count {
		kinds = append(kinds, schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: fmt.Sprintf("Invented%dOf%d", i, user)})
	}
	return kinds
}
