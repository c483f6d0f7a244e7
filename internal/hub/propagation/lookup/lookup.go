// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lookup finds the binding of an object, or the name that a new one gets, and the
// policy of a binding, with whose allowance it takes up.
package lookup

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// Binding is a Binding that a client knows.
type Binding interface {
	workv1alpha2.Binding
	client.Object
}

// PermanentBindingID returns the permanent ID of the binding of an object. It is the same if the
// binding is made anew, as on a hub that was restored from an older backup: the
// clusters know by it that what they have is what they are sent.
func PermanentBindingID(object metav1.Object) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(object.GetUID())).String()
}

// ObjectBindings are those that have a name which the binding of an object may have.
type ObjectBindings struct {
	// Own are for an object of that kind and name.
	Own   []Binding
	taken map[string]bool // the names that bindings of other objects have
}

// OfObject returns the binding of the object with the UID, nil if there is none.
func (b ObjectBindings) OfObject(uid types.UID) Binding {
	for _, one := range b.Own {
		if one.BindingSpec().Resource.UID == uid {
			return one
		}
	}
	return nil
}

// ExceptObject returns those of other objects than the one with the UID: earlier ones of
// the same name.
func (b ObjectBindings) ExceptObject(uid types.UID) []Binding {
	var others []Binding
	for _, one := range b.Own {
		if one.BindingSpec().Resource.UID != uid {
			others = append(others, one)
		}
	}
	return others
}

// NewBinding returns an empty binding for an object, with the name that a new one gets.
func (b ObjectBindings) NewBinding(key templates.Key) Binding {
	names := claims.BindingNames(key.Kind, key.Name.Name)
	for _, name := range names {
		if !b.taken[name] {
			return emptyBinding(key, name)
		}
	}
	return emptyBinding(key, names[len(names)-1])
}

// BindingNames returns the names that the binding of an object may have.
func BindingNames(key templates.Key) []types.NamespacedName {
	var names []types.NamespacedName
	for _, name := range claims.BindingNames(key.Kind, key.Name.Name) {
		names = append(names, types.NamespacedName{Namespace: key.Name.Namespace, Name: name})
	}
	return names
}

// PolicyOf returns the policy that a binding says to be of, without a namespace for a
// ClusterPropagationPolicy; false if it says none. Whoever may write the bindings of a
// namespace can write anything, so it counts as none if the hub would not have written it:
// under a name that is not that of its object, or about what is in another namespace.
func PolicyOf(b Binding) (policy types.NamespacedName, is bool) {
	key := templates.KeyOf(b.BindingSpec().Resource)
	if !slices.Contains(BindingNames(key), client.ObjectKeyFromObject(b)) {
		return types.NamespacedName{}, false
	}
	annotations := b.GetAnnotations()
	if name := annotations[policyv1alpha1.AnnotationPropagationPolicyName]; name != "" {
		namespace := annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace]
		return types.NamespacedName{Namespace: namespace, Name: name}, namespace != "" && namespace == b.GetNamespace()
	}
	name := annotations[policyv1alpha1.AnnotationClusterPropagationPolicyName]
	return types.NamespacedName{Name: name}, name != ""
}

// ReadPolicy returns a policy by its name; one without a namespace is a
// ClusterPropagationPolicy.
func ReadPolicy(ctx context.Context, reader client.Reader, name types.NamespacedName) (policyv1alpha1.Policy, error) {
	var policy interface {
		policyv1alpha1.Policy
		client.Object
	} = &policyv1alpha1.PropagationPolicy{}
	if name.Namespace == "" {
		policy = &policyv1alpha1.ClusterPropagationPolicy{}
	}
	if err := reader.Get(ctx, name, policy); err != nil {
		return nil, fmt.Errorf("reading policy %q: %w", name, err)
	}
	return policy, nil
}

// FindBindings reads those that may be for an object.
func FindBindings(ctx context.Context, reader client.Reader, key templates.Key) (ObjectBindings, error) {
	found := ObjectBindings{taken: map[string]bool{}}
	for _, name := range BindingNames(key) {
		one := emptyBinding(key, name.Name)
		err := reader.Get(ctx, name, one)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return ObjectBindings{}, fmt.Errorf("reading the binding of %s: %w", key, err)
		default:
			is := templates.KeyOf(one.BindingSpec().Resource)
			if is.Kind.GroupKind() == key.Kind.GroupKind() && is.Name == key.Name {
				found.Own = append(found.Own, one)
			} else {
				found.taken[name.Name] = true
			}
		}
	}
	return found, nil
}

func emptyBinding(key templates.Key, name string) Binding {
	if key.Name.Namespace == "" {
		b := &workv1alpha2.ClusterResourceBinding{}
		b.Name = name
		return b
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = key.Name.Namespace
	b.Name = name
	return b
}
