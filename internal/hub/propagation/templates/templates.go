// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/propagation/kept"
	"github.com/capstan-io/capstan/internal/kube/served"
	"github.com/capstan-io/capstan/internal/kube/watch"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// TemplateOptions are what Templates are made of.
type TemplateOptions struct {
	Client metadata.Interface
	// Mapper is asked again and again about kinds that nobody serves, which has to be
	// cheap.
	Mapper meta.RESTMapper
	// Served tells which kinds the hub serves.
	Served *served.KindCache
	Clock  clock.Clock
	// Changed is told of each object that is new, changed or gone. It must return
	// soon.
	Changed func(Key)
}

// Templates are the objects of the hub that may be sent to clusters. Nothing is
// watched before Start is called. It is safe for concurrent use.
type Templates struct {
	options TemplateOptions
	common  *kept.SharedValues

	mu      sync.Mutex
	uses    watch.UseCounter[schema.GroupVersionKind]
	kinds   map[schema.GroupVersionKind]*watchedKind
	waiting *waitingKinds
}

// NewTemplates returns Templates without any.
func NewTemplates(o TemplateOptions) *Templates {
	return &Templates{options: o, common: kept.NewSharedValues(), kinds: map[schema.GroupVersionKind]*watchedKind{}, waiting: newWaitingKinds()}
}

// UseKinds makes the kinds all that a user uses. Kinds that nobody uses any more are
// forgotten.
func (t *Templates) UseKinds(user string, kinds ...schema.GroupVersionKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := t.uses.SetUses(user, kinds...)
	for _, of := range last {
		t.kinds[of].stopWatch()
		t.waiting.removeKind(t.kinds[of])
		delete(t.kinds, of)
	}
	for _, of := range first {
		t.kinds[of] = &watchedKind{of: of, apiVersion: of.GroupVersion().String(), templates: t, objects: newObjectStore()}
		t.waiting.addKind(t.kinds[of])
	}
}

// Get returns the metadata of an object, which must not be changed; nil if there
// is none. It is not known before the kind has been listed, and is told as changed
// then, even if there is none.
func (t *Templates) Get(key Key) (object *metav1.PartialObjectMetadata, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[key.Kind]
	if k == nil {
		return nil, false
	}
	if !k.listed {
		k.askObject(key.Name)
		return nil, false
	}
	return k.objects.get(key.Name), true
}

// AskObject has an object told as changed when its kind is listed next, or is known to
// be absent.
func (t *Templates) AskObject(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.kinds[key.Kind]; k != nil {
		k.askObject(key.Name)
	}
}

// Absent reports whether the hub has not had a kind for so long that its objects
// count as deleted.
func (t *Templates) Absent(of schema.GroupVersionKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[of]
	return k != nil && k.absent
}

// Find returns the objects in the scopes that the function selects. It is asked
// about no others, and each of them is looked at once for each scope that it is in.
// Of the scopes that are returned it is not known what is in them. Whatever the
// function takes, nobody else waits for it.
func (t *Templates) Find(scopes []selector.SearchScope, selects func(*metav1.PartialObjectMetadata) bool) (keys []Key, unknown []selector.SearchScope) {
	for _, scope := range scopes {
		objects, known := t.objectsInScope(scope)
		if !known {
			unknown = append(unknown, scope)
			continue
		}
		for _, object := range objects {
			if selects(object) {
				keys = append(keys, Key{Kind: scope.Kind, Name: client.ObjectKeyFromObject(object)})
			}
		}
	}
	return keys, unknown
}

// objectsInScope returns the objects of a scope, which must not be changed, and whether it is known
// what is there.
func (t *Templates) objectsInScope(scope selector.SearchScope) (objects []*metav1.PartialObjectMetadata, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[scope.Kind]
	if k == nil || !k.listed {
		return nil, false
	}
	return slices.Collect(k.objects.findInScope(scope)), true
}

// Kinds returns the kinds of the objects that are known.
func (t *Templates) Kinds() []schema.GroupVersionKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.kinds))
}

// ListedVersions returns the kinds of the same group and name as a kind that have been
// listed, in the order of their versions. Each has the same objects.
func (t *Templates) ListedVersions(of schema.GroupKind) []schema.GroupVersionKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	var versions []schema.GroupVersionKind
	for kind, k := range t.kinds {
		if kind.GroupKind() == of && k.listed && !k.absent {
			versions = append(versions, kind)
		}
	}
	slices.SortFunc(versions, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.Version, b.Version) })
	return versions
}

// ObjectsInNamespace returns the objects of a namespace.
func (t *Templates) ObjectsInNamespace(namespace string) []Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []Key
	for of, k := range t.kinds {
		for object := range k.objects.inNamespace(namespace) {
			keys = append(keys, Key{Kind: of, Name: client.ObjectKeyFromObject(object)})
		}
	}
	return keys
}

// ClaimedObjects returns the objects that have one of the labels by which a policy claims
// objects.
func (t *Templates) ClaimedObjects(labels map[string]string) []Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []Key
	for of, k := range t.kinds {
		for label, id := range labels {
			for object := range k.objects.byClaim[claim{label, id}] {
				keys = append(keys, Key{Kind: of, Name: client.ObjectKeyFromObject(object)})
			}
		}
	}
	return keys
}

// KindProblem returns why the objects of a kind are not known: that the hub does not
// serve it, or does not let us watch it. It is nil if they are, or will be soon.
func (t *Templates) KindProblem(of schema.GroupVersionKind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.kinds[of]; k != nil {
		return k.problem
	}
	return nil
}

// Synced reports whether all kinds that are used have been listed, or cannot be.
func (t *Templates) Synced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		if !k.listed && k.problem == nil {
			return false
		}
	}
	return true
}
