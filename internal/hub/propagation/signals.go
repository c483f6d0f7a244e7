// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// signals are what the controllers have each other look at again where no watch of theirs tells
// it. Each inbox is read by the queue of one controller.
type signals struct {
	// objects are for the controller that finds the policies of objects, and needed for the one
	// that sends along what others refer to.
	objects, needed *inbox.Inbox[templates.Key]
	// bindings are for the controller that makes works of them, and referrers for the one that finds
	// what their objects refer to.
	bindings, referrers *inbox.Inbox[reconcile.Request]
}

func newSignals() signals {
	return signals{
		objects: &inbox.Inbox[templates.Key]{}, needed: &inbox.Inbox[templates.Key]{},
		bindings: &inbox.Inbox[reconcile.Request]{}, referrers: &inbox.Inbox[reconcile.Request]{},
	}
}

// objectChanged has an object looked at by all that care for it.
func (s signals) objectChanged(key templates.Key) {
	s.objects.Add(key)
	s.needed.Add(key)
}

// namespaceChanged returns what has all objects of a namespace looked at that are watched.
func (s signals) namespaceChanged(watched *templates.Templates) func(namespace string) {
	return func(namespace string) {
		for _, key := range watched.ObjectsInNamespace(namespace) {
			s.objectChanged(key)
		}
	}
}

// bindingChanged has a binding looked at by all that care for it.
func (s signals) bindingChanged(binding types.NamespacedName) {
	s.deliverAgain(binding)
	s.referAgain(binding)
}

// deliverAgain has the works of a binding made again.
func (s signals) deliverAgain(binding types.NamespacedName) {
	s.bindings.Add(reconcile.Request{NamespacedName: binding})
}

// referAgain has what the object of a binding refers to looked at again.
func (s signals) referAgain(binding types.NamespacedName) {
	s.referrers.Add(reconcile.Request{NamespacedName: binding})
}
