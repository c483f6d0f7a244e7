// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// access makes the ServiceAccounts of the agents and gives them their roles.
func (c *Controller) access(ctx context.Context, p *pass) error {
	if err := p.apply(ctx, c.home, manifests.HomeAccess(p.klusterlet, c.Rules, p.options.PullSecret)...); err != nil {
		return err
	}
	return p.apply(ctx, p.member, manifests.Access(p.klusterlet, c.Rules, p.options.PullSecret)...)
}
