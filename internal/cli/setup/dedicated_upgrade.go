// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// upgradeHost upgrades the operator of the API servers of dedicated hubs, if the
// cluster hosts some, and waits until they serve again. Their version of
// Kubernetes stays.
func (u *upgradeCommand) upgradeHost(ctx context.Context, s *clusterSite) error {
	found, err := readSituation(ctx, s.read, install.ControlPlaneOperator())
	if err != nil || found.deployment == nil {
		return err
	}
	if err := found.checkForeign(u.force); err != nil {
		return err
	}
	options := install.OptionsOf(found.deployment)
	options.Image = cmp.Or(u.image, version.ImageReference())
	objects, err := found.operator.RenderObjects(options)
	if err != nil {
		return err
	}
	if !u.mode.MakesChanges() {
		return s.dryRunObjects(ctx, objects)
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
		err := s.steps.RunStep("Checking the control plane "+key.Name, func() error { return s.newWaiter().AwaitControlPlane(ctx, key) })
		if err != nil {
			return err
		}
	}
	return nil
}

// upgradeKubernetes brings a dedicated hub to another version of Kubernetes, and
// waits until it runs that.
func (u *upgradeCommand) upgradeKubernetes(ctx context.Context, s *clusterSite) error {
	key := install.DedicatedKey(u.name)
	_, cp, err := install.FindDedicated(ctx, u.session, key)
	if err != nil {
		return err
	}
	if !cp.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the dedicated hub %q is being removed", cp.Name)
	}
	if err := versionPossible(cp, u.kubernetes); err != nil {
		return err
	}
	from := cmp.Or(cp.Status.Version, cp.Spec.Version)
	if from == u.kubernetes && cp.Spec.Version == u.kubernetes {
		fmt.Fprintf(s.out, "the dedicated hub %q already runs Kubernetes %s\n", cp.Name, from)
		return nil
	}
	before := cp.DeepCopy()
	cp.Spec.Version = u.kubernetes
	if !u.mode.Skips() {
		if err := s.write.Patch(ctx, cp, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("set the version of ControlPlane %q: %w", key, err)
		}
	}
	if u.mode.MakesChanges() {
		err := s.steps.RunStep("Upgrading the API servers, and then the controller managers, of "+cp.Name, func() error { return s.awaitKubernetes(ctx, key, u.kubernetes) })
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "dedicated hub %q: Kubernetes %s -> %s%s\n", cp.Name, from, u.kubernetes, u.mode.Suffix())
	return nil
}

// awaitKubernetes waits until all of a control plane is of a version of Kubernetes.
func (s *clusterSite) awaitKubernetes(ctx context.Context, key client.ObjectKey, wanted string) error {
	next := fmt.Sprintf("The operator continues. \"kubectl -n %s describe controlplane %s\" shows details.", key.Namespace, key.Name)
	err := s.newWaiter().PollUntil(ctx, "Kubernetes "+wanted, next, func(ctx context.Context) (done bool, why string, err error) {
		cp := &fleetv1alpha1.ControlPlane{}
		if err := s.read.Get(ctx, key, cp); err != nil {
			return false, "", fmt.Errorf("read ControlPlane %q: %w", key, err)
		}
		for _, condition := range []string{fleetv1alpha1.ControlPlaneConditionDegraded, fleetv1alpha1.ControlPlaneConditionProgressing} {
			if meta.IsStatusConditionTrue(cp.Status.Conditions, condition) {
				why = meta.FindStatusCondition(cp.Status.Conditions, condition).Message
				break
			}
		}
		return cp.Status.Version == wanted, why, nil
	})
	if err != nil {
		return err
	}
	return s.newWaiter().AwaitControlPlane(ctx, key)
}

// versionPossible returns why a control plane cannot be brought to a version of
// Kubernetes.
func versionPossible(cp *fleetv1alpha1.ControlPlane, wanted string) error {
	if problem := manifests.VersionProblem(cp.Status.Version, wanted); problem != "" {
		return exit.UsageError("--%s: %s", flagKubernetes, problem)
	}
	return nil
}
