// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// bound counts the bindings of each kind, which all of them use as one: there are
// many. It is safe for concurrent use.
type bound struct {
	// use makes the kinds all that a user uses.
	use func(user string, kinds ...schema.GroupVersionKind)

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]int
}

func newBound(use func(user string, kinds ...schema.GroupVersionKind)) *bound {
	return &bound{use: use, kinds: map[schema.GroupVersionKind]int{}}
}

// note notes what a binding was and is; nil is none.
func (b *bound) note(before, after workv1alpha2.Binding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after != nil {
		if kind := kindOf(after); b.kinds[kind] == 0 {
			b.use(b.user(kind), kind)
		}
		b.kinds[kindOf(after)]++
	}
	if before == nil {
		return
	}
	kind := kindOf(before)
	if b.kinds[kind]--; b.kinds[kind] <= 0 {
		delete(b.kinds, kind)
		b.use(b.user(kind))
	}
}

func (b *bound) user(kind schema.GroupVersionKind) string { return "bindings of " + kind.String() }

func kindOf(b workv1alpha2.Binding) schema.GroupVersionKind {
	return templates.KeyOf(b.BindingSpec().Resource).Kind
}
