// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// checkDedicatedFlags returns what of the command line makes no sense.
func (c *cleanCommand) checkDedicatedFlags() error {
	switch {
	case !c.isDedicated:
		return nil
	case c.namespaces:
		return exit.UsageError("--cluster-namespaces is for shared hubs: those of a dedicated hub go with its data, with --%s", flagDeleteData)
	case !dnsLabel.MatchString(c.dedicated.name):
		return exit.UsageError("--%s: %q is not the name of a hub", flagName, c.dedicated.name)
	default:
		return nil
	}
}

// cleanDedicated removes a dedicated hub from its host: its clusters, the hub,
// its control plane, and the operators that are of no use any more.
func (c *cleanCommand) cleanDedicated(ctx context.Context, s *clusterSite) error {
	d := &c.dedicated
	found, err := d.survey(ctx, s.read)
	if err != nil {
		return err
	}
	for _, operator := range []operatorSituation{found.hub, found.controlPlane} {
		if err := operator.checkForeign(c.force); err != nil {
			return err
		}
	}
	places, err := d.listNamespaces(ctx, s.read)
	if err != nil {
		return err
	}
	if found.live == nil && !d.hasHub(found) && len(places) == 0 {
		fmt.Fprintf(s.out, "%s has no dedicated hub %q\n", c.session.DescribeTarget(), d.name)
		return c.removeOperators(ctx, s)
	}
	hub, clusters, err := c.dedicatedClusters(ctx, found)
	if err != nil {
		return err
	}
	if c.mode.MakesChanges() {
		c.askForData(found)
	}
	if hub != nil {
		leaving := removalRun{site: hub, waits: hub.newWaiter()}
		leaving.removeObjects(ctx, removal{
			step: "Letting clusters leave", objects: managedClusters(clusters), after: c.giveUp(hub),
			hint: "--force gives up unreachable clusters.",
		})
		if leaving.err != nil {
			return leaving.err
		}
	}
	if err := c.removeDedicated(ctx, s, found, places); err != nil {
		return err
	}
	return c.removeHubContext(s, found)
}

// hasHub reports whether the host has the ClusterManager of the hub.
func (d *dedicatedHub) hasHub(found hostState) bool {
	return slices.ContainsFunc(found.hub.hubs, func(cm operatorv1.ClusterManager) bool {
		return cm.Name == d.name && cm.Spec.DeployOption.Mode == operatorv1.InstallModeHosted
	})
}

// listNamespaces returns the namespaces of the hub that are on the host.
func (d *dedicatedHub) listNamespaces(ctx context.Context, c client.Reader) ([]client.Object, error) {
	var places []client.Object
	for name, operator := range map[string]install.Operator{d.name: install.ClusterManagerOperator(), d.controlPlaneKey().Namespace: install.ControlPlaneOperator()} {
		namespace := &corev1.Namespace{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read the namespace %q: %w", name, err)
		}
		if namespace.Labels[operatorv1.LabelOperatedBy] == operator.DeploymentKey().Name {
			places = append(places, objectReference(corev1.SchemeGroupVersion.WithKind("Namespace"), "", name))
		}
	}
	return places, nil
}

// dedicatedClusters returns the hub as a site, and its clusters. It is nil if the
// hub does not answer and is removed all the same.
func (c *cleanCommand) dedicatedClusters(ctx context.Context, found hostState) (*clusterSite, []string, error) {
	d := &c.dedicated
	if found.live == nil || found.hubEndpoint() == "" || !d.hasHub(found) {
		return nil, nil, nil // It never worked, or is nearly gone.
	}
	hub, clusters, err := c.askHub(ctx, found)
	switch {
	case err != nil && c.force:
		fmt.Fprintf(c.session.ErrOut, "Warning: the hub does not answer, so its clusters cannot be told that it is being removed: %v\n", err)
		return nil, nil, nil
	case err != nil:
		return nil, nil, exit.Next(fmt.Errorf("ask the hub for its clusters: %w", err), "Repair the hub, or remove it with --force: its clusters then keep what was delivered to them.")
	}
	if len(clusters) > 0 && !c.allClusters {
		return nil, nil, exit.Next(fmt.Errorf("the hub still has clusters, %d in all: %s", len(clusters), formatFirstNames(clusters)),
			"Remove Pull clusters with \"capstan unregister NAME\" and Push clusters with \"capstan unjoin NAME\"; \"capstan get clusters --context %s\" shows the mode. Or remove all with --all-clusters.", d.contextName())
	}
	return hub, clusters, nil
}

// askHub asks the hub itself, as its administrator.
func (c *cleanCommand) askHub(ctx context.Context, found hostState) (*clusterSite, []string, error) {
	s, err := openSite(c.session, c.mode, c.timeout)
	if err != nil {
		return nil, nil, err
	}
	content, err := c.dedicated.readKubeconfig(ctx, s.read)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig of the hub: %w", err)
	}
	config.Host = found.hubEndpoint()
	config.Timeout = askTimeout
	hub, err := newSite(config, c.session, c.mode, c.timeout)
	if err != nil {
		return nil, nil, err
	}
	clusters, err := clusterNames(ctx, hub.read)
	return hub, clusters, err
}

// askForData asks, on a terminal, whether what the hub has stored is deleted as
// well. Nobody to ask, or an etcd of somebody else, means that it stays.
func (c *cleanCommand) askForData(found hostState) {
	if c.deleteData || found.live == nil || found.live.Spec.Etcd.External != nil {
		return
	}
	c.deleteData, _ = c.session.AskYesNo(fmt.Sprintf("Also delete everything that the hub %q has stored? This cannot be undone.", c.dedicated.name))
}

// removeDedicated removes the hub and its control plane from the host.
func (c *cleanCommand) removeDedicated(ctx context.Context, s *clusterSite, found hostState, places []client.Object) error {
	d := &c.dedicated
	r := removalRun{site: s, waits: s.newWaiter()}
	if d.hasHub(found) {
		r.removeObjects(ctx, removal{step: "Removing the hub " + d.name, objects: []client.Object{objectReference(found.hub.operator.InstanceKind(), "", d.name)}})
	}
	if found.live != nil {
		r.removeObjects(ctx, removal{
			step:    "Removing the control plane " + d.name,
			objects: []client.Object{objectReference(found.controlPlane.operator.InstanceKind(), d.controlPlaneKey().Namespace, d.name)},
			before:  c.setDeletionPolicy(s, found.live),
		})
	}
	for _, place := range places {
		if place.GetName() == d.controlPlaneKey().Namespace && !c.deleteData {
			r.removeObjects(ctx, removal{step: "Removing the permissions of its operator", objects: []client.Object{
				objectReference(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), d.controlPlaneKey().Namespace, fleetv1alpha1.ControlPlaneOperator),
			}})
			continue
		}
		r.removeObjects(ctx, removal{step: "Removing the namespace " + place.GetName(), objects: []client.Object{place}})
	}
	if r.err != nil {
		return r.err
	}
	return c.removeOperators(ctx, s)
}

// setDeletionPolicy tells the operator what becomes of the data.
func (c *cleanCommand) setDeletionPolicy(s *clusterSite, live *fleetv1alpha1.ControlPlane) func(context.Context, client.Object) error {
	policy := fleetv1alpha1.DeletionPolicyRetain
	if c.deleteData {
		policy = fleetv1alpha1.DeletionPolicyDelete
	}
	if live.Spec.Etcd.Managed == nil || live.Spec.Etcd.Managed.DeletionPolicy == policy || !live.DeletionTimestamp.IsZero() {
		return nil
	}
	return func(ctx context.Context, cp client.Object) error {
		patch := fmt.Appendf(nil, `{"spec":{"etcd":{"managed":{"deletionPolicy":%q}}}}`, policy)
		return s.write.Patch(ctx, cp, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(install.FieldOwner))
	}
}

// removeOperators removes the operators that nothing on the host needs any more.
func (c *cleanCommand) removeOperators(ctx context.Context, s *clusterSite) error {
	r := removalRun{site: s, waits: s.newWaiter()}
	for _, operator := range []install.Operator{install.ControlPlaneOperator(), install.ClusterManagerOperator()} {
		now, err := readSituation(ctx, s.read, operator)
		if err != nil {
			return err
		}
		needed, err := operator.Instances(ctx, s.read)
		if err != nil {
			return err
		}
		if len(needed) == 0 {
			r.removeOperator(ctx, now)
		}
	}
	return r.err
}

// removeHubContext removes the context of the hub from the kubeconfig, and says what stays.
func (c *cleanCommand) removeHubContext(s *clusterSite, found hostState) error {
	d := &c.dedicated
	if !c.mode.MakesChanges() {
		return nil
	}
	fmt.Fprintf(s.out, "%s no longer hosts the hub %q\n", c.session.DescribeTarget(), d.name)
	if found.live != nil && !c.deleteData && found.live.Spec.Etcd.Managed != nil {
		fmt.Fprintf(s.out, "What it has stored stays in namespace %[1]s, with the keys to read it. \"capstan init --dedicated --name %[2]s\" uses it again; \"kubectl delete namespace %[1]s\" deletes it.\n",
			d.controlPlaneKey().Namespace, d.name)
	}
	kubeconfig := hubContext{files: c.session.ConfigFlags().ToRawKubeConfigLoader().ConfigAccess(), name: d.contextName()}
	removed, err := kubeconfig.removeContext(found.hubEndpoint())
	if removed {
		fmt.Fprintf(s.out, "context %q removed from the kubeconfig\n", kubeconfig.name)
	}
	return err
}
