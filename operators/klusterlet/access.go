// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// access makes the ServiceAccounts of the agents and gives them their roles.
func (c *Controller) access(ctx context.Context, p *pass) error {
	return c.apply(ctx, p, manifests.Access(p.klusterlet, c.Rules, p.options.PullSecret)...)
}
