// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/monitoring"
	"github.com/capstan-io/capstan/internal/operator/podmonitor"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/allowed"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// hubInstallation has the phases that put the hub onto its clusters.
type hubInstallation struct {
	*operatorClusters
	// connections watches ClusterConnections, once their kind is installed.
	connections *install.KindWatches
}

// applyNamespaces makes the namespaces of the hub, on both clusters.
func (i *hubInstallation) applyNamespaces(ctx context.Context, p *clusterManagerPass) error {
	if err := p.applyObjects(ctx, i.management, manifests.HubNamespaces(p.hub)); err != nil || p.target == i.management {
		return err
	}
	return p.applyObjects(ctx, p.target, manifests.HubNamespaces(p.hub))
}

// applyComponentAccess installs the identities of the components with what they may do, and
// what users may do.
func (i *hubInstallation) applyComponentAccess(ctx context.Context, p *clusterManagerPass) error {
	objects, err := manifests.ComponentAccess(p.hub, grantableRules(i.Rules, p.rights))
	if err != nil {
		return fmt.Errorf("reading the rules of the components: %w", err)
	}
	users := manifests.UserRoles(p.hub, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		granted, _ := p.rights.SplitGrantable(rules)
		return granted
	})
	if err := p.applyObjects(ctx, p.target, append(objects, users...)); err != nil {
		return err
	}
	own, err := manifests.HomeAccess(p.hub, grantableRules(i.Rules, p.home))
	if err != nil {
		return fmt.Errorf("reading the rules of the components: %w", err)
	}
	if granted, _ := p.home.SplitGrantable(podmonitor.ReaderRules()); len(granted) > 0 {
		own = append(own, manifests.MetricsReader(p.hub))
	}
	return p.applyObjects(ctx, i.management, own)
}

// applyPodMonitors lets Prometheus find the metrics, if the ClusterManager asks for that.
func (i *hubInstallation) applyPodMonitors(ctx context.Context, p *clusterManagerPass) error {
	if again := podMonitorRequest(i.operatorClusters, p).ReconcileMonitors(ctx, i.management); again > 0 {
		p.DueIn(again)
	}
	return nil
}

func podMonitorRequest(c *operatorClusters, p *clusterManagerPass) monitoring.PodMonitorRequest {
	return monitoring.PodMonitorRequest{
		Object: p.Object, Conditions: &p.Object.Status.Conditions,
		Monitors: manifests.PodMonitors(p.hub), Apply: p.ApplyNamed,
		Others: func(ctx context.Context) ([]render.Object, error) { return podMonitorsOfOthers(ctx, c, p.Object.Name) },
	}
}

// podMonitorsOfOthers returns those that other ClusterManagers ask for.
func podMonitorsOfOthers(ctx context.Context, c *operatorClusters, name string) ([]render.Object, error) {
	list := &operatorv1.ClusterManagerList{}
	if err := c.Reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ClusterManagers: %w", err)
	}
	var monitors []render.Object
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != name && monitoring.AsksForMonitors(other, other.Status.Conditions) {
			monitors = append(monitors, manifests.PodMonitors(hubOf(other, c.Options.Namespace))...)
		}
	}
	return monitors, nil
}

// applyPriorityLevels has heartbeats and admission answered first.
func applyPriorityLevels(ctx context.Context, p *clusterManagerPass) error {
	if p.features.IsFeatureOff(allowed.Priority) {
		return nil
	}
	return p.ApplyNamed(ctx, p.target, manifests.PriorityObjects(p.hub)...)
}

// applyAdmissionGuards keeps agents from what administrators say in their ManagedClusters, and others from what the Cluster API stores on the hub, whatever the gate says: what is
// forged before it is on would count after. With the gate of propagation, it also limits
// what its controller may grant itself, and keeps objects whose users want that from being
// deleted.
func applyAdmissionGuards(ctx context.Context, p *clusterManagerPass) error {
	if !p.features.IsFeatureOff(allowed.AgentGuards) {
		if err := p.ApplyNamed(ctx, p.target, manifests.AgentGuards(p.hub)...); err != nil {
			return err
		}
	}
	if !p.features.IsFeatureOff(allowed.AggregatedAPI) {
		if err := p.ApplyNamed(ctx, p.target, manifests.ConnectionGuard(p.hub)...); err != nil {
			return err
		}
	}
	switch {
	case p.features.IsFeatureOff(allowed.Propagation):
		return nil
	case p.hub.PropagationEnabled():
		if err := (fence.TemplatesFence{}).EnsureFence(ctx, p.target.Client, p.target.Live); err != nil {
			return err
		}
		return p.ApplyNamed(ctx, p.target, manifests.DeletionProtection(p.hub)...)
	default:
		return p.target.Named.RemoveLabelled(ctx, p.hub.OwnerLabels(), manifests.DeletionProtection(p.hub)...)
	}
}

// applyBootstrapAccess installs the identity that agents register with.
func (i *hubInstallation) applyBootstrapAccess(ctx context.Context, p *clusterManagerPass) error {
	return p.applyObjects(ctx, p.target, manifests.BootstrapAccess(p.hub))
}

func (i *hubInstallation) applyServices(ctx context.Context, p *clusterManagerPass) error {
	if err := p.applyObjects(ctx, p.target, manifests.ServerServices(p.hub)); err != nil {
		return err
	}
	return p.applyObjects(ctx, i.management, append(manifests.HomeServices(p.hub), manifests.DisruptionBudgets(p.hub)...))
}

func (i *hubInstallation) applyNetworkPolicies(ctx context.Context, p *clusterManagerPass) error {
	if p.features.IsFeatureOff(allowed.NetworkPolicies) {
		return nil
	}
	return p.applyObjects(ctx, i.management, manifests.HubNetworkPolicies(p.hub))
}

// copyPullSecret copies the pull secret to the hub's namespace, or removes the copy
// when the original is gone.
func (i *hubInstallation) copyPullSecret(ctx context.Context, p *clusterManagerPass) error {
	name := i.Options.PullSecret
	if name == "" || i.Options.Namespace == p.hub.Namespace() {
		p.hub.PullSecret = name
		return nil
	}
	source := &corev1.Secret{}
	key := client.ObjectKey{Namespace: i.Options.Namespace, Name: name}
	err := i.Client.Get(ctx, key, source)
	if apierrors.IsNotFound(err) {
		return i.deleteOwnSecret(ctx, p, name)
	}
	if err != nil {
		return fmt.Errorf("reading the pull secret %q: %w", key, err)
	}
	m := render.ResourceMeta{Name: name, Namespace: p.hub.Namespace(), Labels: p.hub.OwnerLabels()}
	if _, err := i.management.Secrets.Apply(ctx, render.SecretCopy(m, source)); err != nil {
		return err
	}
	p.hub.PullSecret = name
	return nil
}

// installedKinds are the kinds of which leftovers are looked for, in the order
// of their removal: first what would block or restart others.
func installedKinds() []schema.GroupVersionKind {
	admission := admissionv1.SchemeGroupVersion
	rbac := rbacv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		admission.WithKind("MutatingWebhookConfiguration"),
		admission.WithKind("ValidatingWebhookConfiguration"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		rbac.WithKind("ClusterRoleBinding"),
		rbac.WithKind("RoleBinding"),
		rbac.WithKind("ClusterRole"),
		rbac.WithKind("Role"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	}
}

// homeKinds are those of them that the operator may look for where it runs: the
// roles of OCM's charts know no PodDisruptionBudgets, those of older ones no
// NetworkPolicies either.
func homeKinds(held rights.Rights) []schema.GroupVersionKind {
	return slices.DeleteFunc(installedKinds(), func(kind schema.GroupVersionKind) bool {
		return kind.Kind == "NetworkPolicy" && !held.AllowsRules(install.ListAndWatch(networkingv1.GroupName, "networkpolicies")) ||
			kind.Kind == "PodDisruptionBudget" && !held.AllowsRules(install.ListAndWatch(policyv1.GroupName, "poddisruptionbudgets"))
	})
}

// hubKinds are those of them that are on a hub which the operator does not run on,
// and what only such a hub has.
func hubKinds() []schema.GroupVersionKind {
	kinds := slices.DeleteFunc(installedKinds(), func(kind schema.GroupVersionKind) bool {
		return slices.Contains([]string{"Deployment", "NetworkPolicy", "PodDisruptionBudget"}, kind.Kind)
	})
	return append(kinds, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
}

// pruneLeftovers removes what an earlier spec or release installed.
func (i *hubInstallation) pruneLeftovers(ctx context.Context, p *clusterManagerPass) error {
	_, err := i.management.Applier.Prune(ctx, render.PruneScope{Kinds: homeKinds(p.home), Labels: p.hub.OwnerLabels()}, p.Records)
	if err != nil || p.target == i.management {
		return err
	}
	_, err = p.target.Applier.Prune(ctx, render.PruneScope{Kinds: hubKinds(), Labels: p.hub.OwnerLabels()}, p.Records)
	return err
}
