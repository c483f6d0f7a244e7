// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-io/capstan/internal/kube/rights"
)

// KindWatch is the watch of a kind, which begins once the operator may.
type KindWatch struct {
	// Needs is the right to watch.
	Needs rbacv1.PolicyRule
	// Optional says that the operator can do without.
	Optional bool
	// Begin begins the watch; it is called until it succeeds, and then not again.
	Begin func() error

	begun bool
}

// KindWatches are those of a controller, which runs already when they begin: if one
// that is forbidden were there from the start, its cache would never fill and
// the controller never run. The zero value has none.
type KindWatches struct {
	mu   sync.Mutex
	list []*KindWatch
}

// AddWatches adds watches that have not begun.
func (w *KindWatches) AddWatches(list ...*KindWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, list...)
}

// EnsureWatches begins the watches that the rights allow, unless they have begun, and
// returns what is missing to begin all that the operator cannot do without.
func (w *KindWatches) EnsureWatches(held rights.Rights) (missing []rbacv1.PolicyRule, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.list {
		lacking := held.MissingRules(one.Needs)
		switch {
		case len(lacking) > 0 && !one.Optional:
			missing = append(missing, lacking...)
		case len(lacking) > 0 || one.begun:
		default:
			if err := one.Begin(); err != nil {
				return nil, fmt.Errorf("watching %s: %w", one.Needs.Resources[0], err)
			}
			one.begun = true
		}
	}
	return missing, nil
}

// ListAndWatch is the right to watch a kind, or objects of it by their names.
func ListAndWatch(group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"list", "watch"},
	}
}
