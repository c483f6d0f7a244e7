// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// namespaceBytesMax is how long the revisions of the objects of a namespace are
	// together: whoever changes a large object again and again fills etcd with them.
	namespaceBytesMax = 64 << 20
	// plentyBytesMax is up to where an object may have revisionsMax of them. Beyond, it has
	// the oldest and the current one.
	plentyBytesMax = namespaceBytesMax / 2
	// overheadBytes is what a revision takes besides its content.
	overheadBytes = 1 << 10
	// pageSize is how many revisions are read or deleted at a time: each may have a megabyte, and
	// API servers return what a request for many has deleted.
	pageSize = 20
)

// shelf has the revisions that are stored, and knows how long those of the objects of a
// namespace are together. Their content is not in memory. It is safe for concurrent use.
type shelf struct {
	client client.Client
	live   client.Reader

	mu  sync.Mutex
	of  map[string]stored // by the names of revisions
	sum map[string]int    // by namespace
}

type stored struct {
	namespace string // of the object
	rollout   types.UID
	bytes     int
}

func newShelf(d Deps) *shelf {
	return &shelf{client: d.Client, live: d.Live, of: map[string]stored{}, sum: map[string]int{}}
}

// read reads all revisions, by the rollouts that they are of and the bindings of the
// objects. All at once: the API server reads all of them to find those of one rollout.
func (s *shelf) read(ctx context.Context) (map[types.UID]map[types.NamespacedName]history, error) {
	all := map[types.UID]map[types.NamespacedName]history{}
	next := ""
	for {
		list := &fleetv1alpha1.PropagationRevisionList{}
		if err := s.live.List(ctx, list, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("reading the PropagationRevisions of the hub: %w", err)
		}
		for i := range list.Items {
			r := &list.Items[i]
			rollout := types.UID(r.Labels[labelRollout])
			if all[rollout] == nil {
				all[rollout] = map[types.NamespacedName]history{}
			}
			binding := types.NamespacedName{Namespace: r.Spec.BindingNamespace, Name: r.Spec.BindingName}
			all[rollout][binding] = append(all[rollout][binding], revision{name: r.Name, number: r.Spec.Revision, bytes: len(r.Spec.Content), kept: true})
			s.add(r.Name, stored{binding.Namespace, rollout, len(r.Spec.Content)})
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	for _, of := range all {
		for binding := range of {
			slices.SortFunc(of[binding], func(a, b revision) int { return cmp.Compare(a.number, b.number) })
		}
	}
	return all, nil
}

// source returns what works were made of by a revision that is stored; false if it is
// not, or not any more.
func (s *shelf) source(ctx context.Context, r revision, now deliver.Source) (source deliver.Source, has bool, err error) {
	if !r.kept {
		return deliver.Source{}, false, nil
	}
	object := &fleetv1alpha1.PropagationRevision{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: r.name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return deliver.Source{}, false, nil
		}
		return deliver.Source{}, false, fmt.Errorf("reading PropagationRevision %q: %w", r.name, err)
	}
	if source, err = made(object.Spec.Content, now); err != nil {
		return deliver.Source{}, false, fmt.Errorf("PropagationRevision %q: %w", r.name, err)
	}
	return source, true, nil
}

// create stores a revision of an object; false if there is no room for it.
func (s *shelf) create(ctx context.Context, object *fleetv1alpha1.PropagationRevision) (bool, error) {
	namespace := object.Spec.BindingNamespace
	if !s.reserve(object.Name, stored{namespace, types.UID(object.Labels[labelRollout]), len(object.Spec.Content)}) {
		return false, nil
	}
	if err := s.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		s.remove(object.Name)
		return false, fmt.Errorf("storing revision %d of binding %q: %w", object.Spec.Revision, namespace+"/"+object.Spec.BindingName, err)
	}
	return true, nil
}

// delete deletes revisions.
func (s *shelf) delete(ctx context.Context, gone []revision) error {
	for _, r := range gone {
		err := s.client.Delete(ctx, &fleetv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{Name: r.name}})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PropagationRevision %q: %w", r.name, err)
		}
		s.remove(r.name)
	}
	return nil
}

// clear deletes all revisions of rollouts, in requests that are bounded each.
func (s *shelf) clear(ctx context.Context, rollouts []types.UID) error {
	var values, names []string
	for _, rollout := range rollouts {
		values = append(values, string(rollout))
	}
	s.mu.Lock()
	for name, is := range s.of {
		if slices.Contains(rollouts, is.rollout) {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	of, err := labels.NewRequirement(labelRollout, selection.In, values)
	if err != nil {
		return fmt.Errorf("selecting the PropagationRevisions of rollouts that are gone: %w", err)
	}
	by := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{LabelSelector: labels.NewSelector().Add(*of), Limit: pageSize}}
	for left := len(names); left > 0; left -= pageSize {
		if err := s.client.DeleteAllOf(ctx, &fleetv1alpha1.PropagationRevision{}, by); err != nil {
			return fmt.Errorf("deleting the PropagationRevisions of %d rollouts that are gone: %w", len(rollouts), err)
		}
	}
	for _, name := range names {
		s.remove(name)
	}
	return nil
}

// fits tells whether there is room for a revision of an object of a namespace.
func (s *shelf) fits(r revision, namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(r.name, namespace, r.bytes)
}

// room tells whether there is room for a revision. The caller has the lock.
func (s *shelf) room(name, namespace string, bytes int) bool {
	return s.sum[namespace]-s.of[name].bytes+bytes+overheadBytes <= namespaceBytesMax
}

// most is how many an object of a namespace may have now.
func (s *shelf) most(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum[namespace] > plentyBytesMax {
		return 2
	}
	return revisionsMax
}

// reserve takes room for a revision, if there is enough.
func (s *shelf) reserve(name string, is stored) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room(name, is.namespace, is.bytes) {
		return false
	}
	s.put(name, is)
	return true
}

// add notes that a revision is stored.
func (s *shelf) add(name string, is stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(name, is)
}

// remove notes that a revision is not stored any more.
func (s *shelf) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(name)
}

// put counts a revision in the place of the one of its name. The caller has the lock.
func (s *shelf) put(name string, is stored) {
	s.take(name)
	is.bytes += overheadBytes
	s.of[name] = is
	s.sum[is.namespace] += is.bytes
}

// take counts a revision no more. The caller has the lock.
func (s *shelf) take(name string) {
	was := s.of[name]
	if s.sum[was.namespace] -= was.bytes; s.sum[was.namespace] == 0 {
		delete(s.sum, was.namespace)
	}
	delete(s.of, name)
}
