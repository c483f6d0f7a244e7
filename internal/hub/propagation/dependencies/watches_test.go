// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// TestWhatIsNeededNoMoreIsLookedAt shows AttachedController the binding of a Deployment that stops to
// need a ConfigMap. It is told by what the cache shows: whoever has written the binding
// knows sooner, and would have it look at what the cache still shows.
func TestWhatIsNeededNoMoreIsLookedAt(t *testing.T) {
	page := templates.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: types.NamespacedName{Namespace: "shop", Name: "0"}}
	a := NewAttachedController(DependencyDeps{Templates: configMaps(t, "shop", 1)}, nil)
	binding := func(generation int64, annotations map[string]string) *workv1alpha2.ResourceBinding {
		return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", Generation: generation, Annotations: annotations}}
	}
	needs := map[string]string{workv1alpha2.AnnotationDependencies: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"0"}]`}
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
			followed(t, a, queue)
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

// TestWhatABindingSaysItNeedsFillsNoMemory has bindings say again and again that they need
// all ConfigMaps of a namespace.
func TestWhatABindingSaysItNeedsFillsNoMemory(t *testing.T) {
	const objects, namespace = 1000, "bank"
	a := NewAttachedController(DependencyDeps{Templates: configMaps(t, namespace, objects)}, nil)
	every := references.Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, LabelSelector: &metav1.LabelSelector{}}
	for name, c := range map[string]struct {
		namespace  string
		references int
		told       int
	}{
		"its own, as often as it may say so":  {namespace, 200, objects},
		"its own, more often":                 {namespace, 3000, 0},
		"those of another tenant's namespace": {"shop", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := references.EncodeAnnotation(slices.Repeat([]references.Reference{every}, c.references))
			if err != nil {
				t.Fatal(err)
			}
			b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
				Namespace: c.namespace, Name: "web", Annotations: map[string]string{workv1alpha2.AnnotationDependencies: text},
			}}
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())
			defer q.ShutDown()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a.onBinding().Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: b}, q)
			followed(t, a, q)
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 128 {
				t.Errorf("an event of the binding takes %d MiB", used)
			}
			if told := q.Len() - 1; told != c.told { // its own object is one
				t.Errorf("%d objects are looked at, want %d", told, c.told)
			}
		})
	}
}

// TestObjectsAreNotLookedForWhileTheCacheTells changes a binding again and again that says
// 200 times that its object needs all ConfigMaps of its namespace. A list of these for each
// would have the bindings of others wait for seconds each time.
func TestObjectsAreNotLookedForWhileTheCacheTells(t *testing.T) {
	const objects, changes = 1000, 50
	a := NewAttachedController(DependencyDeps{Templates: configMaps(t, "shop", objects)}, nil)
	every := references.Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", LabelSelector: &metav1.LabelSelector{}}
	text, err := references.EncodeAnnotation(slices.Repeat([]references.Reference{every}, 200))
	if err != nil {
		t.Fatal(err)
	}
	binding := func(generation int64) client.Object {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Generation: generation, Annotations: map[string]string{workv1alpha2.AnnotationDependencies: text},
		}}
		b.Spec.Placement = &policyv1alpha1.Placement{}
		return b
	}
	q := &counted{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())}
	defer q.ShutDown()
	for n := range int64(changes) {
		a.onBinding().Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: binding(n), ObjectNew: binding(n + 1)}, q)
	}
	if q.added > 0 {
		t.Errorf("%d objects were looked for while the cache told of bindings", q.added)
	}
	followed(t, a, q)
	if most := objects * changes; q.added > most || q.Len() != objects {
		t.Errorf("%d objects are looked at, as was said %d times, want %d and at most %d times", q.Len(), q.added, objects, most)
	}
}

// counted is a queue that counts what is added.
type counted struct {
	workqueue.TypedRateLimitingInterface[templates.Key]

	added int
}

func (c *counted) Add(key templates.Key) {
	c.added++
	c.TypedRateLimitingInterface.Add(key)
}

// followed adds what follows from the changes that were told of.
func followed(t *testing.T, a *AttachedController, q workqueue.TypedRateLimitingInterface[templates.Key]) {
	t.Helper()
	for a.changes.FollowNext(t.Context(), q) {
		continue
	}
}

// configMaps returns templates that know so many ConfigMaps.
func configMaps(t *testing.T, namespace string, n int) *templates.Templates {
	t.Helper()
	scheme := apiruntime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var all []apiruntime.Object
	for i := range n {
		all = append(all, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i), ResourceVersion: "1"},
		})
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	known := templates.NewTemplates(templates.TemplateOptions{
		Client: fake.NewSimpleMetadataClient(scheme, all...), Mapper: mapper, Clock: clock.RealClock{}, Changed: func(templates.Key) {},
	})
	known.UseKinds("somebody", kind)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- known.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(3 * time.Minute); len(known.ObjectsInNamespace(namespace)) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d ConfigMaps are known, want %d: %v", len(known.ObjectsInNamespace(namespace)), n, known.KindProblem(kind))
		}
	}
	return known
}
