// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/kube/served"
)

// TestAnObjectThatWasAskedForTooEarlyIsTold is about an object that was deleted
// while nobody looked: the list does not have it, so only who asked knows of it.
func TestAnObjectThatWasAskedForTooEarlyIsTold(t *testing.T) {
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	key := func(name string) Key {
		return Key{Kind: deployments, Name: types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	var told []Key
	watched := NewTemplates(TemplateOptions{Changed: func(key Key) { told = append(told, key) }})
	watched.UseKinds("somebody", deployments)
	for _, name := range []string{"gone", "there"} {
		if _, known := watched.Get(key(name)); known {
			t.Fatalf("%s is known before its kind was listed", name)
		}
	}

	there := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "there", UID: "1"}}
	watched.kinds[deployments].Replace([]*metav1.PartialObjectMetadata{there}, "1")
	for _, name := range []string{"gone", "there"} {
		if count := len(slices.DeleteFunc(slices.Clone(told), func(k Key) bool { return k != key(name) })); count != 1 {
			t.Errorf("%s was told %d times", name, count)
		}
	}
	if object, known := watched.Get(key("gone")); object != nil || !known {
		t.Errorf("what is gone is %v, known: %t", object, known)
	}

	told = nil
	watched.kinds[deployments].Replace([]*metav1.PartialObjectMetadata{there}, "2")
	if len(told) > 0 {
		t.Errorf("%v were told again", told)
	}
}

// TestAChangeIsToldWhetherTheGenerationCountsItOrNot is also about PriorityClasses, whose
// generation is always 1.
func TestAChangeIsToldWhetherTheGenerationCountsItOrNot(t *testing.T) {
	for of, want := range map[schema.GroupVersionKind]int{
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                 0,
		{Version: "v1", Kind: "ConfigMap"}:                                 1,
		{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}: 1,
	} {
		told := 0
		watched := NewTemplates(TemplateOptions{Changed: func(Key) { told++ }})
		watched.UseKinds("somebody", of)
		state := func(version string) *metav1.PartialObjectMetadata {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: version, Generation: 1}}
			if of.Kind == "ConfigMap" {
				object.Generation = 0
			}
			return object
		}
		watched.kinds[of].Replace([]*metav1.PartialObjectMetadata{state("1")}, "1")
		told = 0
		watched.kinds[of].Update(state("2"))
		if told != want {
			t.Errorf("a %s that was written was told %d times, want %d", of.Kind, told, want)
		}
	}
}

// TestAKindHasToBeMissingForLong is about objects whose definition was deleted:
// that the hub does not serve their kind for a moment says nothing about them.
func TestAKindHasToBeMissingForLong(t *testing.T) {
	widgets := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	key := Key{Kind: widgets, Name: types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "one"}}
	told, down := 0, false
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	hub := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	watched := NewTemplates(TemplateOptions{Served: served.NewKindCache(hub, clk), Clock: clk, Changed: func(Key) { told++ }})
	watched.UseKinds("somebody", widgets)
	noMatch := &meta.NoKindMatchError{GroupKind: widgets.GroupKind(), SearchedVersions: []string{widgets.Version}}
	kind := watched.kinds[widgets]
	absent := func(want bool, when string) {
		t.Helper()
		if got := watched.Absent(widgets); got != want {
			t.Errorf("%s: absent is %t", when, got)
		}
	}
	if _, known := watched.Get(key); known {
		t.Fatal("the object is known before its kind was listed")
	}

	kind.Failed(noMatch)
	clk.Step(absentMin - time.Second)
	hub.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, errors.New("connection refused")
	})
	down = true
	kind.Failed(errors.New("connection refused"))
	down = false
	clk.Step(time.Minute)
	kind.Failed(noMatch)
	absent(false, "the hub did not answer in between")
	hub.Resources = []*metav1.APIResourceList{{GroupVersion: "example.io/v2", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}}}}
	clk.Step(absentMin)
	kind.Failed(noMatch)
	absent(false, "another version is served")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: widgets.Group, Resource: "widgets"}, "", nil)
	clk.Step(absentMin)
	kind.Failed(forbidden)
	absent(false, "it may not be read, and is served")
	hub.Resources = nil
	clk.Step(served.MaxAge)
	kind.Failed(forbidden)
	clk.Step(absentMin)
	if told > 0 {
		t.Errorf("the object was told %d times", told)
	}
	kind.Failed(noMatch)
	absent(true, "it was missing all the time")
	if object, known := watched.Get(key); told != 1 || object != nil || !known {
		t.Errorf("the object was told %d times, and is %v, known: %t", told, object, known)
	}

	kind.Replace([]*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "one", UID: "1"}}}, "1")
	absent(false, "the definition is back")
	if told != 2 {
		t.Errorf("the object that is back was told %d times", told-1)
	}
}
