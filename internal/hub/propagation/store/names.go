// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// names are those of bindings. It is safe for concurrent use.
type names struct {
	mu  sync.Mutex
	all map[types.NamespacedName]bool
}

func (n *names) add(name types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[name] = true
}

func (n *names) remove(name types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, name)
}

func (n *names) has(name types.NamespacedName) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[name]
}
