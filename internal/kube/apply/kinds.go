// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// kindMissTTL is for how long a group version that lacks a kind is not asked
// for again.
const kindMissTTL = 25 * time.Millisecond

const (
	// servedMax is how many resources a group version may have, some times as many as any.
	// They are kept for each that works deliver.
	servedMax = 5_000
	// servedNameMax is how long the names of a resource and its kind may be.
	servedNameMax = 253
)

// ErrNoKind says that the cluster does not serve a kind.
var ErrNoKind = errors.New("the cluster does not know the kind")

// Resource is where the objects of a kind are.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
	// Scales says that autoscalers can scale the objects: they have the subresource scale.
	Scales bool
}

// KindResolver finds the resources of kinds. It asks the server for one group
// version at a time, when a kind of it is first asked for, and again when a
// kind was not there the last time. It is safe for concurrent use.
type KindResolver struct {
	discover func(groupVersion string) (*metav1.APIResourceList, error)
	clock    clock.PassiveClock

	mu       sync.Mutex
	versions map[schema.GroupVersion]*versionKinds
}

// versionKinds are the kinds of one group version.
type versionKinds struct {
	mu    sync.Mutex // held while asking, so that one asks for all
	asked time.Time
	kinds map[string]Resource
}

// NewKindResolver returns a KindResolver that asks with discover, which is
// ServerResourcesForGroupVersion of a discovery client.
func NewKindResolver(discover func(groupVersion string) (*metav1.APIResourceList, error), clock clock.PassiveClock) *KindResolver {
	return &KindResolver{discover: discover, clock: clock, versions: map[schema.GroupVersion]*versionKinds{}}
}

// FindResource returns the resource of a kind. The error is ErrNoKind if the cluster
// does not serve it now.
func (k *KindResolver) FindResource(kind schema.GroupVersionKind) (Resource, error) {
	k.mu.Lock()
	version, ok := k.versions[kind.GroupVersion()]
	if !ok {
		version = &versionKinds{}
		k.versions[kind.GroupVersion()] = version
	}
	k.mu.Unlock()

	version.mu.Lock()
	defer version.mu.Unlock()
	if found, ok := version.kinds[kind.Kind]; ok {
		return found, nil
	}
	if now := k.clock.Now(); version.asked.IsZero() || now.Sub(version.asked) >= kindMissTTL {
		list, err := k.discover(kind.GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err):
			version.kinds = nil
		case err != nil:
			return Resource{}, fmt.Errorf("finding the resource of kind %s: %w", kind.GroupKind(), err)
		case len(list.APIResources) > servedMax:
			return Resource{}, fmt.Errorf("finding the resource of kind %s: the cluster says that it serves %d resources of %s, more than %d",
				kind.GroupKind(), len(list.APIResources), kind.GroupVersion(), servedMax)
		default:
			version.kinds = resourcesOf(kind.GroupVersion(), list)
		}
		version.asked = k.clock.Now()
	}
	found, ok := version.kinds[kind.Kind]
	if !ok {
		return Resource{}, fmt.Errorf("%w %s of %s", ErrNoKind, kind.Kind, kind.GroupVersion())
	}
	return found, nil
}

// KindOf returns the kind of a resource, of a group version that FindResource was
// asked about, or that the server serves now.
func (k *KindResolver) KindOf(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	// Whatever the kind: this makes sure that the group version is there.
	if _, err := k.FindResource(resource.GroupVersion().WithKind("")); err != nil && !errors.Is(err, ErrNoKind) {
		return schema.GroupVersionKind{}, err
	}
	k.mu.Lock()
	version, ok := k.versions[resource.GroupVersion()]
	k.mu.Unlock()
	if !ok { // forgotten meanwhile
		return schema.GroupVersionKind{}, fmt.Errorf("%w of %s", ErrNoKind, resource.GroupResource())
	}
	version.mu.Lock()
	defer version.mu.Unlock()
	for kind, found := range version.kinds {
		if found.GroupVersionResource == resource {
			return resource.GroupVersion().WithKind(kind), nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%w of %s", ErrNoKind, resource.GroupResource())
}

// ForgetGroupVersion makes the next FindResource ask again for a group version: call it when the
// server does not serve a resource that FindResource gave.
func (k *KindResolver) ForgetGroupVersion(gv schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.versions, gv)
}

// ServesResource asks the server anew whether it serves a resource. If it does not
// answer, it is taken to.
func (k *KindResolver) ServesResource(resource schema.GroupVersionResource) bool {
	k.ForgetGroupVersion(resource.GroupVersion())
	_, err := k.KindOf(resource)
	return !errors.Is(err, ErrNoKind)
}

func resourcesOf(gv schema.GroupVersion, list *metav1.APIResourceList) map[string]Resource {
	kinds := make(map[string]Resource, len(list.APIResources))
	scales := map[string]bool{}
	for i := range list.APIResources {
		if name, isScale := strings.CutSuffix(list.APIResources[i].Name, "/scale"); isScale {
			scales[name] = true
		}
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if len(r.Name) > servedNameMax || len(r.Kind) > servedNameMax || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "patch") {
			continue // a subresource, or a kind that only answers questions
		}
		kinds[r.Kind] = Resource{GroupVersionResource: gv.WithResource(r.Name), Namespaced: r.Namespaced, Scales: scales[r.Name]}
	}
	return kinds
}
