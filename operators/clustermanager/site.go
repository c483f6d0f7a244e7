// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// site is a cluster that something is installed on: the one that the operator
// runs on, or the hub of mode Hosted. The phases do the same on either; in mode
// Default both are one.
type site struct {
	client client.Client
	// reader reads past the cache of the client, if it has one.
	reader  client.Reader
	applier *render.Applier
}

func newSite(c client.Client, reader client.Reader) *site {
	return &site{client: c, reader: reader, applier: render.NewApplier(c, c, FieldOwner)}
}

// hubOf returns the hub of the ClusterManager as it is installed, as far as names
// go, whatever became of the spec since.
func hubOf(cm *operatorv1.ClusterManager) manifests.Hub {
	h := manifests.Hub{Name: cm.Name, Spec: *cm.Spec.DeepCopy()}
	h.Spec.DeployOption.Mode = installedMode(cm)
	return h
}

// installedMode returns the mode that the hub is installed in, or that of the
// spec if nothing is.
func installedMode(cm *operatorv1.ClusterManager) operatorv1.InstallMode {
	for _, related := range cm.Status.RelatedResources {
		switch {
		case related.Resource != "deployments":
		case related.Namespace == operatorv1.DefaultHubNamespace:
			return operatorv1.InstallModeDefault
		default:
			return operatorv1.InstallModeHosted
		}
	}
	hosted := cm.Spec.DeployOption.Mode == operatorv1.InstallModeHosted
	if hosted || controllerutil.ContainsFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup) {
		return operatorv1.InstallModeHosted
	}
	return operatorv1.InstallModeDefault
}

// changeMeta changes the metadata of the ClusterManager at once, and nothing else
// of it: what the pass has found out so far is written when it ends.
func (c *Controller) changeMeta(ctx context.Context, p *pass, change func(*operatorv1.ClusterManager) bool) error {
	after := p.before.DeepCopy()
	if !change(after) {
		return nil
	}
	// Under the lock, so that we never remove what another has just added.
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the finalizers and annotations of ClusterManager %q: %w", after.Name, err)
	}
	p.cm.ObjectMeta = *after.ObjectMeta.DeepCopy()
	p.before = after
	return nil
}
