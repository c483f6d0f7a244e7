// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// namespaces makes the namespaces of the agents and of the add-ons.
func (c *Controller) namespaces(ctx context.Context, p *pass) error {
	return c.apply(ctx, p, manifests.Namespaces(p.klusterlet)...)
}
