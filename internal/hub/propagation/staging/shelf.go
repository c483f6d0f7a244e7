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

// revisionStore has the revisions that are stored, and knows how long those of the objects of a
// namespace are together. Their content is not in memory. It is safe for concurrent use.
type revisionStore struct {
	client client.Client
	live   client.Reader

	mu  sync.Mutex
	of  map[string]storedRevision // by the names of revisions
	sum map[string]int            // by namespace
}

type storedRevision struct {
	namespace string // of the object
	rollout   types.UID
	bytes     int
}

func newRevisionStore(d StageDeps) *revisionStore {
	return &revisionStore{client: d.Client, live: d.Live, of: map[string]storedRevision{}, sum: map[string]int{}}
}

// readRevisions reads all revisions, by the rollouts that they are of and the bindings of the
// objects. All at once: the API server reads all of them to find those of one rollout.
func (s *revisionStore) readRevisions(ctx context.Context) (map[types.UID]map[types.NamespacedName]history, error) {
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
			s.addStored(r.Name, storedRevision{binding.Namespace, rollout, len(r.Spec.Content)})
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

// revisionSource returns what works were made of by a revision that is stored; false if it is
// not, or not any more.
func (s *revisionStore) revisionSource(ctx context.Context, r revision, now deliver.WorkSource) (source deliver.WorkSource, has bool, err error) {
	if !r.kept {
		return deliver.WorkSource{}, false, nil
	}
	object := &fleetv1alpha1.PropagationRevision{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: r.name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return deliver.WorkSource{}, false, nil
		}
		return deliver.WorkSource{}, false, fmt.Errorf("reading PropagationRevision %q: %w", r.name, err)
	}
	if source, err = sourceFromRevision(ctx, object.Spec.Content, now); err != nil {
		return deliver.WorkSource{}, false, fmt.Errorf("PropagationRevision %q: %w", r.name, err)
	}
	return source, true, nil
}

// createRevision stores a revision of an object; false if there is no room for it.
func (s *revisionStore) createRevision(ctx context.Context, object *fleetv1alpha1.PropagationRevision) (bool, error) {
	namespace := object.Spec.BindingNamespace
	if !s.reserveRoom(object.Name, storedRevision{namespace, types.UID(object.Labels[labelRollout]), len(object.Spec.Content)}) {
		return false, nil
	}
	if err := s.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		s.removeStored(object.Name)
		return false, fmt.Errorf("storing revision %d of binding %q: %w", object.Spec.Revision, namespace+"/"+object.Spec.BindingName, err)
	}
	return true, nil
}

// deleteRevisions deletes revisions.
func (s *revisionStore) deleteRevisions(ctx context.Context, gone []revision) error {
	for _, r := range gone {
		err := s.client.Delete(ctx, &fleetv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{Name: r.name}})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PropagationRevision %q: %w", r.name, err)
		}
		s.removeStored(r.name)
	}
	return nil
}

// clearRollouts deletes all revisions of rollouts, in requests that are bounded each.
func (s *revisionStore) clearRollouts(ctx context.Context, rollouts []types.UID) error {
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
		s.removeStored(name)
	}
	return nil
}

// fitsRevision reports whether there is room for a revision of an object of a namespace.
func (s *revisionStore) fitsRevision(r revision, namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasRoom(r.name, namespace, r.bytes)
}

// hasRoom reports whether there is room for a revision. The caller has the lock.
func (s *revisionStore) hasRoom(name, namespace string, bytes int) bool {
	return s.sum[namespace]-s.of[name].bytes+bytes+overheadBytes <= namespaceBytesMax
}

// maxRevisions is how many an object of a namespace may have now.
func (s *revisionStore) maxRevisions(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum[namespace] > plentyBytesMax {
		return 2
	}
	return revisionsMax
}

// reserveRoom takes room for a revision, if there is enough.
func (s *revisionStore) reserveRoom(name string, is storedRevision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasRoom(name, is.namespace, is.bytes) {
		return false
	}
	s.countStored(name, is)
	return true
}

// addStored notes that a revision is stored.
func (s *revisionStore) addStored(name string, is storedRevision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countStored(name, is)
}

// removeStored notes that a revision is not stored any more.
func (s *revisionStore) removeStored(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncountStored(name)
}

// countStored counts a revision in the place of the one of its name. The caller has the lock.
func (s *revisionStore) countStored(name string, is storedRevision) {
	s.uncountStored(name)
	is.bytes += overheadBytes
	s.of[name] = is
	s.sum[is.namespace] += is.bytes
}

// uncountStored counts a revision no more. The caller has the lock.
func (s *revisionStore) uncountStored(name string) {
	was := s.of[name]
	if s.sum[was.namespace] -= was.bytes; s.sum[was.namespace] == 0 {
		delete(s.sum, was.namespace)
	}
	delete(s.of, name)
}
