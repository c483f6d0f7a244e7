// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// FindDedicated returns the control plane of a dedicated hub, and a client for
// its host, which is the cluster of the session.
func FindDedicated(ctx context.Context, session *hub.Session, key client.ObjectKey) (client.Client, *fleetv1alpha1.ControlPlane, error) {
	config, err := session.LoadRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	c, err := NewClient(config)
	if err != nil {
		return nil, nil, err
	}
	cp := &fleetv1alpha1.ControlPlane{}
	switch err := c.Get(ctx, key, cp); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil, exit.Next(fmt.Errorf("%s has no dedicated hub %q", session.DescribeTarget(), key.Name),
			"\"kubectl get controlplanes -A\" on its host lists those that exist. Choose the host with --context and the hub with --name.")
	case err != nil:
		return nil, nil, fmt.Errorf("read ControlPlane %q: %w", key, err)
	}
	return c, cp, nil
}
