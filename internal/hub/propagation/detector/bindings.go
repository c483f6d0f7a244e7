// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/claims"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
)

// bindings are those that have a name which the binding of an object may have.
type bindings struct {
	own   []binding // for an object of that kind and name
	taken bool      // the usual name is that of another object's binding
}

// of returns the binding of the object with the UID, nil if there is none.
func (b bindings) of(uid types.UID) binding {
	for _, one := range b.own {
		if one.BindingSpec().Resource.UID == uid {
			return one
		}
	}
	return nil
}

// free returns the name that a new binding gets.
func (b bindings) free(key templates.Key) string {
	usual, suffixed := claims.BindingName(key.Kind, key.Name.Name)
	if b.taken {
		return suffixed
	}
	return usual
}

// bindings reads those that may be for an object.
func (c binder) bindings(ctx context.Context, key templates.Key) (bindings, error) {
	var found bindings
	usual, suffixed := claims.BindingName(key.Kind, key.Name.Name)
	for _, name := range []string{usual, suffixed} {
		one := newBinding(key, name)
		err := c.Client.Get(ctx, types.NamespacedName{Namespace: key.Name.Namespace, Name: name}, one)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return bindings{}, fmt.Errorf("reading the binding of %s: %w", key, err)
		default:
			is := templates.KeyOf(one.BindingSpec().Resource)
			switch {
			case is.Kind.GroupKind() == key.Kind.GroupKind() && is.Name == key.Name:
				found.own = append(found.own, one)
			case name == usual:
				found.taken = true
			}
		}
		if usual == suffixed {
			break
		}
	}
	return found, nil
}

// binding is a Binding that the client knows.
type binding interface {
	workv1alpha2.Binding
	client.Object
}

// newBinding returns an empty binding for an object.
func newBinding(key templates.Key, name string) binding {
	if key.Name.Namespace == "" {
		b := &workv1alpha2.ClusterResourceBinding{}
		b.Name = name
		return b
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace, b.Name = key.Name.Namespace, name
	return b
}

// requirements returns what each replica needs as bindings say it.
func requirements(needs *interpret.Requirements, namespace string) *workv1alpha2.ReplicaRequirements {
	r := &workv1alpha2.ReplicaRequirements{Namespace: namespace}
	if needs == nil {
		return r
	}
	r.ResourceRequest, r.PriorityClassName = needs.Requests, needs.PriorityClassName
	if needs.HardNodeAffinity != nil || len(needs.NodeSelector) > 0 || len(needs.Tolerations) > 0 {
		r.NodeClaim = &workv1alpha2.NodeClaim{
			HardNodeAffinity: needs.HardNodeAffinity, NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations,
		}
	}
	return r
}
