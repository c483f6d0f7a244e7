// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// homeNamespaces makes the namespace of hosted agents, for their administrator
// to put secrets into.
func (c *Controller) homeNamespaces(ctx context.Context, p *pass) error {
	return p.apply(ctx, c.home, manifests.HomeNamespaces(p.klusterlet)...)
}

// namespaces makes the namespaces of the agents and of the add-ons.
func (c *Controller) namespaces(ctx context.Context, p *pass) error {
	return p.apply(ctx, p.member, manifests.Namespaces(p.klusterlet)...)
}
