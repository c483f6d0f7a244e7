// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// network makes the network policies, or removes them where the gate is off.
func (c *Controller) network(ctx context.Context, p *pass) error {
	if p.registrationGates.Enabled(features.NetworkPolicies) {
		return p.apply(ctx, c.home, manifests.NetworkPolicies(p.klusterlet, p.options.HubPorts)...)
	}
	_, err := c.home.applier.Prune(ctx, render.Scope{
		Kinds:  []schema.GroupVersionKind{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")},
		Labels: manifests.Marks(p.klusterlet),
	}, nil)
	return err
}
