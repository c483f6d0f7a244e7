// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// Payers find whose allowance it is that bindings have works written from. They remember the policies that they
// have read, so they are for one look, at a binding or at many.
type Payers struct {
	reader     client.Reader
	policies   map[types.NamespacedName]policyv1alpha1.Policy
	selections claims.Selections
}

// NewPayers returns Payers that read policies by a reader.
func NewPayers(reader client.Reader) *Payers {
	return &Payers{reader: reader, policies: map[types.NamespacedName]policyv1alpha1.Policy{}}
}

// FindPayer returns whose allowance the works of a binding, and the bytes of its writes, count for: an administrator's if a
// ClusterPropagationPolicy sends the object.
func (p *Payers) FindPayer(ctx context.Context, b Binding, object selector.Object) (allowance.WorkOwner, error) {
	owner := allowance.WorkOwner{Namespace: b.GetNamespace()}
	name, says := PolicyOf(b)
	if owner.Namespace == "" || !says || name.Namespace != "" {
		return owner, nil
	}
	policy, err := p.readPolicy(ctx, name)
	if apierrors.IsNotFound(err) {
		return owner, nil
	}
	if err != nil {
		return owner, fmt.Errorf("looking whose works those of binding %q are: %w", client.ObjectKeyFromObject(b), err)
	}
	owner.ClusterWide = p.selections.PolicyHoldsObject(policy, object, b)
	return owner, nil
}

func (p *Payers) readPolicy(ctx context.Context, name types.NamespacedName) (policyv1alpha1.Policy, error) {
	if policy, known := p.policies[name]; known {
		return policy, nil
	}
	policy, err := ReadPolicy(ctx, p.reader, name)
	if err == nil {
		p.policies[name] = policy
	}
	return policy, err
}
