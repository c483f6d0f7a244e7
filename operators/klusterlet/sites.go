// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/render"
)

// site is a cluster that something is installed on: the one that the operator
// runs on, or the managed cluster of hosted agents. The phases do the same on
// either; where agents run on their member, both are one.
type site struct {
	client client.Client
	// live reads from the API server, what is needed rarely.
	live    client.Reader
	applier *render.Applier
	// secretApplier sees what is there through a reader that may read secrets.
	secretApplier *render.Applier
}

func newSite(c client.Client, live, secrets client.Reader) *site {
	return &site{
		client: c, live: live,
		applier:       render.NewApplier(c, c, FieldOwner),
		secretApplier: render.NewApplier(c, secrets, FieldOwner),
	}
}
