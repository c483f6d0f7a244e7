// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/version"
)

// upgradeHost upgrades the operator of the API servers of dedicated hubs, if the
// cluster hosts some, and waits until they serve again. Their version of
// Kubernetes stays.
func (u *upgrading) upgradeHost(ctx context.Context, s *site) error {
	found, err := look(ctx, s.read, install.ControlPlaneOperator())
	if err != nil || found.deployment == nil {
		return err
	}
	if err := found.foreign(u.force); err != nil {
		return err
	}
	options := install.OptionsOf(found.deployment)
	options.Image = cmp.Or(u.image, version.Image())
	objects, err := found.operator.Objects(options)
	if err != nil {
		return err
	}
	if !u.mode.Changes() {
		return s.rehearse(ctx, objects)
	}
	if err := s.putOperator(ctx, found.operator, objects, true); err != nil {
		return err
	}
	planes := &fleetv1alpha1.ControlPlaneList{}
	if err := s.read.List(ctx, planes); err != nil {
		return fmt.Errorf("list the ControlPlanes: %w", err)
	}
	for i := range planes.Items {
		key := client.ObjectKeyFromObject(&planes.Items[i])
		err := s.steps.Do("Checking the control plane "+key.Name, func() error { return s.waiter().ControlPlane(ctx, key) })
		if err != nil {
			return err
		}
	}
	return nil
}
