// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// tracedClient makes the client of a manager.
func (o ManagerOptions) tracedClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return o.Tracer.WrapClient(c), nil
}

// traceArrivals lets the replica that leads see the status of works as the end of
// their traces, if works are watched.
func (o ManagerOptions) traceArrivals(mgr ctrl.Manager) error {
	isWork := func(watched client.Object) bool { _, is := watched.(*workv1.ManifestWork); return is }
	if o.Tracer == nil || !slices.ContainsFunc(o.Watched, isWork) {
		return nil
	}
	follow := manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &workv1.ManifestWork{})
		if err != nil {
			return fmt.Errorf("watching works for their traces: %w", err)
		}
		if _, err := informer.AddEventHandler(o.Tracer.SeenHandler(ctx)); err != nil {
			return fmt.Errorf("watching works for their traces: %w", err)
		}
		return nil
	})
	if err := mgr.Add(follow); err != nil {
		return fmt.Errorf("adding traces to the manager: %w", err)
	}
	return nil
}
