// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// boundKinds counts the bindings of each kind, which all of them use as one: there are
// many. It is safe for concurrent use.
type boundKinds struct {
	// use makes the kinds all that a user uses.
	use func(user string, kinds ...schema.GroupVersionKind)

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]int
}

func newBoundKinds(use func(user string, kinds ...schema.GroupVersionKind)) *boundKinds {
	return &boundKinds{use: use, kinds: map[schema.GroupVersionKind]int{}}
}

// recordBinding notes what a binding was and is; nil is none.
func (b *boundKinds) recordBinding(before, after workv1alpha2.Binding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after != nil {
		if kind := bindingKind(after); b.kinds[kind] == 0 {
			b.use(b.kindUser(kind), kind)
		}
		b.kinds[bindingKind(after)]++
	}
	if before == nil {
		return
	}
	kind := bindingKind(before)
	if b.kinds[kind]--; b.kinds[kind] <= 0 {
		delete(b.kinds, kind)
		b.use(b.kindUser(kind))
	}
}

func (b *boundKinds) kindUser(kind schema.GroupVersionKind) string {
	return "bindings of " + kind.String()
}

func bindingKind(b workv1alpha2.Binding) schema.GroupVersionKind {
	return templates.KeyOf(b.BindingSpec().Resource).Kind
}
