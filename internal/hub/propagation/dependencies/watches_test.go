// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/served"
)

// TestWhatIsNeededNoMoreIsLookedAt shows Attached the binding of a Deployment that stops to
// need a ConfigMap. It is told by what the cache shows: whoever has written the binding
// knows sooner, and would have it look at what the cache still shows.
func TestWhatIsNeededNoMoreIsLookedAt(t *testing.T) {
	page := templates.Key{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Name: types.NamespacedName{Namespace: "shop", Name: "page"}}
	a := NewAttached(Deps{Templates: known(t, page)}, nil)
	binding := func(generation int64, annotations map[string]string) *workv1alpha2.ResourceBinding {
		return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", Generation: generation, Annotations: annotations}}
	}
	needs := map[string]string{workv1alpha2.AnnotationDependencies: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"page"}]`}
	for name, tc := range map[string]struct {
		before, after client.Object // nil is none
		looked        bool
	}{
		"it comes, and needs it":          {after: binding(1, needs), looked: true},
		"it begins to need it":            {before: binding(1, nil), after: binding(1, needs), looked: true},
		"it stops to need it":             {before: binding(1, needs), after: binding(1, nil), looked: true},
		"it goes to other clusters":       {before: binding(1, needs), after: binding(2, needs), looked: true},
		"it goes":                         {before: binding(1, needs), looked: true},
		"only its status changes":         {before: binding(1, needs), after: binding(1, needs)},
		"it needs nothing, and never did": {before: binding(1, nil), after: binding(2, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())
			defer queue.ShutDown()
			switch handler := a.onBinding(); {
			case tc.before == nil:
				handler.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: tc.after}, queue)
			case tc.after == nil:
				handler.Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: tc.before}, queue)
			default:
				handler.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: tc.before, ObjectNew: tc.after}, queue)
			}
			looked := false
			for queue.Len() > 0 {
				key, _ := queue.Get()
				looked = looked || key == page
			}
			if looked != tc.looked {
				t.Errorf("the ConfigMap is looked at: %t, want %t", looked, tc.looked)
			}
		})
	}
}

// known returns Templates with one object.
func known(t *testing.T, key templates.Key) *templates.Templates {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Name.Namespace, Name: key.Name.Name}}
	object.SetGroupVersionKind(key.Kind)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(key.Kind, meta.RESTScopeNamespace)
	all := templates.New(templates.Options{
		Client: metadatafake.NewSimpleMetadataClient(scheme, object), Mapper: mapper, Changed: func(templates.Key) {}, Clock: clock.RealClock{},
		Served: served.New(&fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}, clock.RealClock{}),
	})
	all.Use("a policy", key.Kind)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- all.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		if found, _ := all.Get(key); found != nil {
			return all
		}
		time.Sleep(time.Millisecond)
	}
}
