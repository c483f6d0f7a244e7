// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// absentMin is for how long the hub has to say that it has no such kind before the
// objects of the kind count as deleted. Their definition may be replaced, or the
// hub may just have been started.
const absentMin = 5 * time.Minute

// watchedKind is a kind that is used, and what is known of its objects. The mutex of
// the Templates guards it.
type watchedKind struct {
	templates  *Templates
	of         schema.GroupVersionKind
	apiVersion string
	cancel     context.CancelFunc // nil before the watch begins
	stopped    bool               // what the watch still says is not wanted
	listed     bool
	problem    error
	// missing is since when the hub has no such kind, zero if it has, and absent that
	// it is long.
	missing time.Time
	absent  bool
	objects *objectStore
	// asked are those that somebody asked for before they were listed.
	asked map[types.NamespacedName]bool
}

// askObject has an object told as changed when the kind is listed. The caller has the
// lock.
func (k *watchedKind) askObject(name types.NamespacedName) {
	if k.asked == nil {
		k.asked = map[types.NamespacedName]bool{}
	}
	k.asked[name] = true
}

// stopWatch ends the watch. The caller has the lock.
func (k *watchedKind) stopWatch() {
	k.stopped = true
	if k.cancel != nil {
		k.cancel()
	}
}

// Replace implements watch.Handler.
func (k *watchedKind) Replace(objects []*metav1.PartialObjectMetadata, _ string) {
	k.applyChange(func() []types.NamespacedName {
		before := k.objects
		k.objects = newObjectStore()
		k.listed = true
		k.problem = nil
		k.missing = time.Time{}
		k.absent = false
		var changed []types.NamespacedName
		for _, object := range objects {
			name := client.ObjectKeyFromObject(object)
			k.objects.put(k.slimObject(object))
			if k.hasChanged(before.get(name), object) {
				changed = append(changed, name)
			}
		}
		for object := range before.inNamespace("") {
			if name := client.ObjectKeyFromObject(object); k.objects.get(name) == nil {
				changed = append(changed, name)
			}
		}
		for name := range k.asked {
			if k.objects.get(name) == nil && before.get(name) == nil {
				changed = append(changed, name)
			}
		}
		k.asked = nil
		return changed
	})
}

// Update implements watch.Handler.
func (k *watchedKind) Update(object *metav1.PartialObjectMetadata) {
	k.applyChange(func() []types.NamespacedName {
		name := client.ObjectKeyFromObject(object)
		before := k.objects.get(name)
		k.objects.put(k.slimObject(object))
		if !k.hasChanged(before, object) {
			return nil
		}
		return []types.NamespacedName{name}
	})
}

// slimObject gives an object its kind, as the server sends that of metadata, and drops what
// nobody reads of it.
func (k *watchedKind) slimObject(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	object.APIVersion = k.apiVersion
	object.Kind = k.of.Kind
	k.templates.common.SlimMetadata(&object.ObjectMeta)
	return object
}

// hasChanged reports whether more has changed than the status. Kinds without a
// generation that counts have none, and their resourceVersion tells.
func (k *watchedKind) hasChanged(before, after *metav1.PartialObjectMetadata) bool {
	if before == nil || before.UID != after.UID || before.Generation != after.Generation {
		return true
	}
	resource, _ := meta.UnsafeGuessKindToResource(k.of) // which it is for the kinds that this is about
	if counts := after.Generation > 0 && apply.GenerationCounts(resource.GroupResource()); !counts && before.ResourceVersion != after.ResourceVersion {
		return true
	}
	return !before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
		!after.DeletionTimestamp.IsZero() && !slices.Equal(before.Finalizers, after.Finalizers) || // they are what keeps it
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}

// Delete implements watch.Handler.
func (k *watchedKind) Delete(object *metav1.PartialObjectMetadata) {
	k.applyChange(func() []types.NamespacedName {
		name := client.ObjectKeyFromObject(object)
		k.objects.remove(name)
		return []types.NamespacedName{name}
	})
}

// Bookmark implements watch.Handler.
func (k *watchedKind) Bookmark(string) {}

// Failed implements watch.Handler. What was known stays: that the hub does not
// answer does not make its objects go away, unless it says for long that it has no
// such kind.
func (k *watchedKind) Failed(err error) {
	none := false
	if !k.templates.Absent(k.of) { // whatever the error: with the kind our right to it may go
		// In any version: if it is not served in the one that is used, its objects exist
		// all the same.
		has, unknown := k.templates.options.Served.ServesKind(k.of.GroupKind())
		none = !has && unknown == nil
	}
	k.applyChange(func() []types.NamespacedName {
		k.problem = err
		now := k.templates.options.Clock.Now()
		switch {
		case k.absent:
			return nil
		case !none:
			k.missing = time.Time{}
			return nil
		case k.missing.IsZero():
			k.missing = now
		}
		if now.Sub(k.missing) < absentMin {
			return nil
		}
		changed := slices.Collect(maps.Keys(k.asked))
		for object := range k.objects.inNamespace("") {
			changed = append(changed, client.ObjectKeyFromObject(object))
		}
		k.objects = newObjectStore()
		k.asked = nil
		k.listed = true
		k.absent = true
		return changed
	})
}

// applyChange makes a change under the lock and tells of it.
func (k *watchedKind) applyChange(do func() []types.NamespacedName) {
	k.templates.mu.Lock()
	if k.stopped {
		k.templates.mu.Unlock()
		return
	}
	changed := do()
	k.templates.mu.Unlock()
	for _, name := range changed {
		k.templates.options.Changed(Key{Kind: k.of, Name: name})
	}
}
