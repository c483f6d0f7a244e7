// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// TestObjectsAreNotComparedWhileTheCacheTells changes a policy again and again that selects
// many objects. To compare them with it each time would have the policies of others wait.
func TestObjectsAreNotComparedWhileTheCacheTells(t *testing.T) {
	const objects, changes = 1000, 50
	c := NewDetectionController(DetectionDeps{Templates: configMaps(t, "shop", objects)})
	policy := func(generation int64) client.Object {
		p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "1", Generation: generation}}
		p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
		return p
	}
	q := &counted{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())}
	defer q.ShutDown()
	for n := range int64(changes) {
		c.onPolicy().Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: policy(n + 1), ObjectNew: policy(n + 2)}, q)
	}
	c.onPolicy().Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: policy(changes + 1)}, q)
	if q.added > 0 {
		t.Errorf("%d objects were compared while the cache told of policies", q.added)
	}
	for c.policies.FollowNext(t.Context(), q) {
		continue
	}
	if most := objects * changes; q.added > most || q.Len() != objects {
		t.Errorf("%d objects are looked at, as was said %d times, want %d and at most %d times", q.Len(), q.added, objects, most)
	}
}

// waitingFor has a policy that waits for whatever comes.
type waitingFor struct {
	client.Client
	policy policyv1alpha1.PropagationPolicy
}

func (w waitingFor) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if all, is := list.(*policyv1alpha1.PropagationPolicyList); is {
		all.Items = []policyv1alpha1.PropagationPolicy{w.policy}
	}
	return nil
}

// TestObjectsAreNotComparedWhileTheCacheTellsOfArrivals has what a policy waits for come again and
// again.
func TestObjectsAreNotComparedWhileTheCacheTellsOfArrivals(t *testing.T) {
	const objects, arrivals = 1000, 50
	p := policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "1", Generation: 1}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	c := NewDetectionController(DetectionDeps{Templates: configMaps(t, "shop", objects), Client: waitingFor{policy: p}})
	q := &counted{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())}
	defer q.ShutDown()
	for range arrivals {
		o := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "o"}}
		c.onArrival(overrideIndexKey).Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: o}, q)
	}
	if q.added > 0 {
		t.Errorf("%d objects were compared while the cache told of override policies", q.added)
	}
	for c.policies.FollowNext(t.Context(), q) {
		continue
	}
	if q.added != objects || q.Len() != objects {
		t.Errorf("%d objects are looked at, as was said %d times, want %d, once each", q.Len(), q.added, objects)
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

// configMaps returns templates that know so many ConfigMaps.
func configMaps(t *testing.T, namespace string, n int) *templates.Templates {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	var all []runtime.Object
	for i := range n {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i), ResourceVersion: "1"}}
		object.SetGroupVersionKind(kind)
		all = append(all, object)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	listed := make(chan struct{}, n)
	known := templates.NewTemplates(templates.TemplateOptions{
		Client: fake.NewSimpleMetadataClient(scheme, all...), Mapper: mapper, Clock: clock.RealClock{}, Changed: func(templates.Key) { listed <- struct{}{} },
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
	for range n {
		<-listed
	}
	return known
}

// TestABindingOfNothingBringsItsObjectBack writes bindings of a kind that is listed already: nothing but the
// event of such a binding tells that it has to go.
func TestABindingOfNothingBringsItsObjectBack(t *testing.T) {
	c := NewDetectionController(DetectionDeps{Templates: configMaps(t, "shop", 1)})
	for name, want := range map[string]int{"0": 0, "none": 1} {
		q := &counted{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[templates.Key]())}
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
		c.onBinding().Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: b}, q)
		if q.added != want {
			t.Errorf("%s is looked at %d times when somebody has written its binding, want %d", name, q.added, want)
		}
		q.ShutDown()
	}
}
