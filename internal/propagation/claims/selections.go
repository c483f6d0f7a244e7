// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// Selections remember what policies select: one policy is compared with many
// objects. The zero value remembers nothing. It is safe for concurrent use.
type Selections struct {
	mu sync.Mutex
	of map[types.UID]selection
}

type selection struct {
	generation int64
	selectors  selector.Selectors
}

// SelectorsOf returns what a policy selects: nothing if it is being deleted.
func (s *Selections) SelectorsOf(policy policyv1alpha1.Policy) selector.Selectors {
	if !policy.GetDeletionTimestamp().IsZero() {
		return nil
	}
	s.mu.Lock()
	known, is := s.of[policy.GetUID()]
	s.mu.Unlock()
	if is && known.generation == policy.GetGeneration() {
		return known.selectors
	}
	// Admission has told the author of what cannot be compiled.
	selectors, _ := selector.CompileSelectors(policy.GetNamespace(), policy.PropagationSpec().ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
	if policy.GetUID() == "" || policy.GetGeneration() == 0 {
		return selectors // it is not the hub's
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[types.UID]selection{}
	}
	s.of[policy.GetUID()] = selection{policy.GetGeneration(), selectors}
	return selectors
}

// ForgetPolicy forgets a policy that is gone.
func (s *Selections) ForgetPolicy(policy policyv1alpha1.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, policy.GetUID())
}

// matchPriority returns how exactly a policy selects an object.
func (s *Selections) matchPriority(object selector.Object, policy policyv1alpha1.Policy) selector.Priority {
	if namespace := policy.GetNamespace(); namespace != "" && namespace != object.GetNamespace() {
		return selector.None
	}
	return s.SelectorsOf(policy).PriorityOf(object)
}
