// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestAnObjectThatWasAskedForTooEarlyIsTold is about an object that was deleted
// while nobody looked: the list does not have it, so only who asked knows of it.
func TestAnObjectThatWasAskedForTooEarlyIsTold(t *testing.T) {
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	key := func(name string) Key {
		return Key{Kind: deployments, Name: types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	var told []Key
	watched := New(Options{Changed: func(key Key) { told = append(told, key) }})
	watched.Use("somebody", deployments)
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
