// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/paging"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/render"
)

const (
	// remainingNamesMax is how many objects of a kind a message names.
	remainingNamesMax = 5
	// givenUpPerPassMax limits how many objects lose their finalizers in a pass.
	givenUpPerPassMax = 500
	// clustersPageSize is how many clusters are read at a time.
	clustersPageSize = 500

	// finalizerDomain ends the domain of all finalizers that belong to a hub.
	finalizerDomain = "open-cluster-management.io"
	// propagationDomain is the domain of those of policies and bindings.
	propagationDomain = "karmada.io"
	// worksDefinition is the definition of works.
	worksDefinition = "manifestworks.work.open-cluster-management.io"
	// policiesDefinition is the definition of what has bindings made, which make works.
	policiesDefinition = "propagationpolicies.policy.karmada.io"
	// replicaSetsDefinition is the definition of what creates works.
	replicaSetsDefinition = "manifestworkreplicasets.work.open-cluster-management.io"
)

// removalOrder are the kinds whose objects go first, in this order: policies and
// bindings while their controller can let go of what they propagate, replica sets
// while theirs can list works, works while the grants of their clusters exist,
// clusters while the hub can detach them.
// Other kinds follow.
func removalOrder() []string {
	return []string{
		policiesDefinition,
		"clusterpropagationpolicies.policy.karmada.io",
		"resourcebindings.work.karmada.io",
		"clusterresourcebindings.work.karmada.io",
		"managedclusteraddons.addon.open-cluster-management.io",
		replicaSetsDefinition,
		worksDefinition,
		"managedclusters.cluster.open-cluster-management.io",
	}
}

// removeUserObjects removes the definitions, and by that all clusters and works.
// While there are any, the hub keeps running: it and the agents have to clean
// up. After the deadline those who cannot are given up.
func (r *hubRemoval) removeUserObjects(ctx context.Context, p *clusterManagerPass) error {
	if r.Options.KeepCRDs {
		return nil
	}
	if err := r.removeWebhooksEarly(ctx, p); err != nil {
		return err
	}
	order := removalOrder()
	crds := slices.Concat(r.CRDs, r.Propagation)
	slices.SortStableFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return removalRank(order, a.Name) - removalRank(order, b.Name)
	})
	left := ""
	for _, crd := range crds {
		rest, err := r.removeDefinition(ctx, p, crd)
		if err != nil {
			return err
		}
		if len(rest.names) > 0 {
			return remainingError(rest.describeLeftover(p.Object))
		}
		if rest.definition {
			left = fmt.Sprintf("CustomResourceDefinition %s is being deleted", crd.Name)
		}
	}
	if left != "" {
		return remainingError(left)
	}
	return nil
}

func removalRank(order []string, name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// removeWebhooksEarly removes the webhook configurations early if nobody answers, or is
// going to: they would refuse the very changes that end the waiting. Otherwise
// they guard the hub to its end.
func (r *hubRemoval) removeWebhooksEarly(ctx context.Context, p *clusterManagerPass) error {
	closed := r.pastDeadline(p.Object)
	for _, part := range []string{"registration-webhook", "work-webhook"} {
		available, err := r.isPartAvailable(ctx, p, part)
		if err != nil {
			return err
		}
		closed = closed || !available
	}
	if !closed {
		return nil
	}
	return removeWebhookConfigs(ctx, p)
}

// removeWebhookConfigs removes the webhook configurations.
func removeWebhookConfigs(ctx context.Context, p *clusterManagerPass) error {
	admission := admissionv1.SchemeGroupVersion
	_, err := p.target.Applier.Prune(ctx, render.PruneScope{
		Kinds: []schema.GroupVersionKind{
			admission.WithKind("MutatingWebhookConfiguration"), admission.WithKind("ValidatingWebhookConfiguration"),
		},
		Labels: p.hub.OwnerLabels(),
	}, nil)
	return err
}

// leftoverObjects is what is left of a kind.
type leftoverObjects struct {
	plural string
	names  []string // at most remainingNamesMax
	count  int64
	// definition says that the definition is still there.
	definition bool
	// barred is what the operator would have to be allowed to give them up.
	barred []rbacv1.PolicyRule
	// refusal is how the API server refused that.
	refusal error
}

func (l leftoverObjects) describeLeftover(cm *operatorv1.ClusterManager) string {
	names := strings.Join(l.names, ", ")
	if int64(len(l.names)) < l.count {
		names += ", …"
	}
	if len(l.barred) > 0 {
		return fmt.Sprintf("%d %s remain (%s): the operator may not remove the finalizers of the hub from them; "+
			"remove those, or give the operator a role with this rule: %s (%v)", l.count, l.plural, names, rights.DescribeRules(l.barred), l.refusal)
	}
	_, wait := deletionDeadline(cm)
	return fmt.Sprintf("%d %s remain (%s): waiting for their clusters to clean up; clusters that are not Available are given up %s after the deletion (annotation %s)",
		l.count, l.plural, names, wait, operatorv1.AnnotationDeletionDeadline)
}

// removeDefinition deletes a definition that is ours and tells what is left.
func (r *hubRemoval) removeDefinition(
	ctx context.Context, p *clusterManagerPass, crd *apiextensionsv1.CustomResourceDefinition,
) (leftoverObjects, error) {
	left := leftoverObjects{plural: crd.Spec.Names.Plural}
	live := definitions.DefinitionMetadata()
	err := p.target.Live.Get(ctx, client.ObjectKey{Name: crd.Name}, live)
	if apierrors.IsNotFound(err) || err == nil && !isOwnedBy(live, p.Object.Name) {
		return left, nil
	}
	if err != nil {
		return left, fmt.Errorf("reading CustomResourceDefinition %q: %w", crd.Name, err)
	}
	left.definition = true
	if live.DeletionTimestamp.IsZero() {
		if err := p.target.Client.Delete(ctx, live); client.IgnoreNotFound(err) != nil {
			return left, fmt.Errorf("deleting CustomResourceDefinition %q: %w", crd.Name, err)
		}
	}
	list, err := listObjects(ctx, p.target, crd, givenUpPerPassMax)
	if err != nil || len(list.Items) == 0 {
		return left, err
	}
	if r.pastDeadline(p.Object) {
		reachable, err := r.availableClusters(ctx, p)
		if err != nil {
			return left, err
		}
		err = r.removeHubFinalizers(ctx, p, list.Items, reachable)
		if apierrors.IsForbidden(err) { // it takes someone else, whom this tells
			left.barred = []rbacv1.PolicyRule{{APIGroups: []string{crd.Spec.Group}, Resources: []string{left.plural}, Verbs: []string{"patch"}}}
			left.refusal = err
		} else if err != nil {
			return left, err
		}
	}
	left.count = int64(len(list.Items))
	if list.RemainingItemCount != nil {
		left.count += *list.RemainingItemCount
	}
	for _, item := range list.Items[:min(len(list.Items), remainingNamesMax)] {
		left.names = append(left.names, strings.TrimPrefix(client.ObjectKeyFromObject(&item).String(), "/"))
	}
	return left, nil
}

// listObjects returns the metadata of the objects of a kind, none if the kind
// is not served any more, or is one that the operator may not see: under OCM's
// role it made nobody able to make such objects.
func listObjects(
	ctx context.Context, hub *install.Target, crd *apiextensionsv1.CustomResourceDefinition, limit int64,
) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: storageVersion(crd), Kind: crd.Spec.Names.Kind + "List",
	})
	err := hub.Live.List(ctx, list, client.Limit(limit))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing %s: %w", crd.Spec.Names.Plural, err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(schema.GroupVersionKind{
			Group: crd.Spec.Group, Version: storageVersion(crd), Kind: crd.Spec.Names.Kind,
		})
	}
	return list, nil
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return ""
}

// removeHubFinalizers removes the finalizers of a hub from objects of clusters that are not
// Available, and from those that belong to no cluster.
func (r *hubRemoval) removeHubFinalizers(ctx context.Context, p *clusterManagerPass, items []metav1.PartialObjectMetadata, reachable map[string]bool) error {
	var names []string
	for i := range items {
		item := &items[i]
		kept := slices.DeleteFunc(slices.Clone(item.Finalizers), isHubFinalizer)
		if item.DeletionTimestamp.IsZero() || len(kept) == len(item.Finalizers) || reachable[owningCluster(item)] {
			continue
		}
		patch := client.MergeFromWithOptions(item.DeepCopy(), client.MergeFromWithOptimisticLock{})
		item.Finalizers = kept
		if err := p.target.Client.Patch(ctx, item, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizers of %s %q: %w", item.Kind, client.ObjectKeyFromObject(item), err)
		}
		names = append(names, strings.TrimPrefix(client.ObjectKeyFromObject(item).String(), "/"))
	}
	if len(names) > 0 {
		shown := strings.Join(names[:min(len(names), remainingNamesMax)], ", ")
		install.RecordRemovalWarning(r.Events, p.Object, reasonGivenUp, fmt.Sprintf("%d of kind %s were not cleaned up, because their clusters are not Available: %s",
			len(names), items[0].Kind, shown))
	}
	return nil
}

// owningCluster returns the cluster that has to clean up after an object: that of
// its namespace, or the cluster itself.
func owningCluster(item *metav1.PartialObjectMetadata) string {
	if item.Namespace != "" {
		return item.Namespace
	}
	return item.Name
}

// availableClusters returns the clusters that are Available. If the controller that
// notices their silence does not run, none counts as such.
func (r *hubRemoval) availableClusters(ctx context.Context, p *clusterManagerPass) (map[string]bool, error) {
	names := map[string]bool{}
	watched, err := r.isPartAvailable(ctx, p, "registration-controller")
	if err != nil || !watched {
		return names, err
	}
	pages := paging.NewPages(p.target.Live, clustersPageSize, paging.ClustersMax)
	for clusters, err := range paging.EachPage(ctx, pages, func() *clusterv1.ManagedClusterList { return &clusterv1.ManagedClusterList{} }) {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing ManagedClusters: %w", err)
		}
		for i := range clusters.Items {
			if meta.IsStatusConditionTrue(clusters.Items[i].Status.Conditions, clusterv1.ManagedClusterConditionAvailable) {
				names[clusters.Items[i].Name] = true
			}
		}
	}
	return names, nil
}

// isHubFinalizer reports whether a finalizer belongs to a hub or its agents.
func isHubFinalizer(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	return domain == finalizerDomain || domain == propagationDomain || strings.HasSuffix(domain, "."+finalizerDomain)
}
