// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// Key names an object of the hub.
type Key struct {
	Kind schema.GroupVersionKind
	// Name has no namespace if the object has none.
	Name types.NamespacedName
}

// KeyOf returns the key of the object that a binding is for.
func KeyOf(reference workv1alpha2.ObjectReference) Key {
	return Key{
		Kind: schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind),
		Name: types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name},
	}
}

// String returns the key for messages, such as Deployment "default/web".
func (k Key) String() string {
	name := k.Name.Name
	if k.Name.Namespace != "" {
		name = k.Name.String()
	}
	return fmt.Sprintf("%s %q", k.Kind.Kind, name)
}
