// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup turns a cluster into a hub, upgrades a hub or a member to
// another release, and removes the hub from a cluster.
package setup

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// operatorSituation is what of an operator is on a cluster.
type operatorSituation struct {
	operator install.Operator
	// deployment is that of the operator, nil if there is none.
	deployment *appsv1.Deployment
	// definition is that of the kind that the operator works for, nil if there is none.
	definition *metav1.PartialObjectMetadata
	// leftovers says that something that installs the operator is there.
	leftovers bool
	// release is that of the operator which has installed what there is, or empty.
	release string
	// hubs are the ClusterManagers, if the operator is the one of a hub.
	hubs []operatorv1.ClusterManager
}

// readSituation finds out what is on a cluster.
func readSituation(ctx context.Context, c client.Reader, operator install.Operator) (operatorSituation, error) {
	s := operatorSituation{operator: operator}
	var err error
	if s.deployment, err = operator.Installed(ctx, c); err != nil {
		return s, err
	}
	if s.definition, err = operator.ReadDefinition(ctx, c); err != nil {
		return s, err
	}
	if s.leftovers, err = operator.Leftovers(ctx, c); err != nil {
		return s, err
	}
	if s.release, err = operator.InstalledRelease(ctx, c); err != nil {
		return s, err
	}
	hubs := &operatorv1.ClusterManagerList{}
	if err := c.List(ctx, hubs); err != nil && !apierrors.IsNotFound(err) {
		return s, fmt.Errorf("list the ClusterManagers: %w", err)
	}
	s.hubs = hubs.Items
	return s, nil
}

// installer is who has installed what there is; Capstan if there is nothing. An
// operator may be in another namespace, and then its definition tells.
func (s operatorSituation) installer() install.Installer {
	switch {
	case s.deployment != nil:
		return install.InstallerOf(s.deployment)
	case s.definition != nil:
		return install.InstallerOf(s.definition)
	default:
		return install.ByCapstan
	}
}

// describeInstalled names what there is, for people.
func (s operatorSituation) describeInstalled() string {
	if s.deployment != nil {
		return fmt.Sprintf("an operator %q with the image %s", s.operator.DeploymentKey(), s.operatorImage())
	}
	return fmt.Sprintf("a definition %q", s.operator.CRD())
}

// operatorImage is that of the operator, if there is one.
func (s operatorSituation) operatorImage() string {
	if s.deployment == nil {
		return ""
	}
	return install.OptionsOf(s.deployment).Image
}

// checkForeign returns an error if the operator is not Capstan's to change, which
// force allows for those that nobody else changes back.
func (s operatorSituation) checkForeign(force bool) error {
	switch by := s.installer(); {
	case by == install.ByOLM:
		return exit.Next(fmt.Errorf("there is %s, installed by OLM, which reverts changes by others", s.describeInstalled()),
			"Change it by its Subscription. A ClusterManager for it is at the end of what \"capstan init -o yaml\" prints.")
	case by == install.ByHelm:
		return exit.Next(fmt.Errorf("there is %s, installed by Helm, which reverts changes by others", s.describeInstalled()),
			"Change it with \"helm upgrade\", and remove it with \"helm uninstall\"; \"helm list -A\" shows the release.")
	case by == install.ByOther && !force:
		return exit.Next(fmt.Errorf("there is %s already, which Capstan has not installed", s.describeInstalled()),
			"Probably this is a hub or member of OCM. Choose another cluster with --context, or let Capstan take its place with --force: the clusters and works in it stay.")
	default:
		return nil
	}
}

// isOlderRelease reports whether a release is older than another one. Of what is no release
// nothing is known.
func isOlderRelease(release, than string) bool {
	a, err := utilversion.ParseSemantic(release)
	if err != nil {
		return false
	}
	b, err := utilversion.ParseSemantic(than)
	return err == nil && a.LessThan(b)
}
