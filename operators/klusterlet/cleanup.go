// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/registration/handover"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

const (
	// podsGoneMax is how long the removal waits for the pods of the agents to end.
	// One on a node that is gone never does.
	podsGoneMax = 30 * time.Second
	// podsGonePoll is how often it looks.
	podsGonePoll = time.Second
)

// reasonTakenOver is the reason of the event that AppliedManifestWorks stay for
// another agent.
const reasonTakenOver = "AppliedManifestWorksTakenOver"

// agentRemoval has the phases that remove agents.
type agentRemoval struct{ *operatorClusters }

// skipWithoutMember leaves a phase of the cleanup out if nothing is to be removed from the
// cluster that the agents work on.
func skipWithoutMember(phase func(context.Context, *klusterletPass) error) func(context.Context, *klusterletPass) error {
	return func(ctx context.Context, p *klusterletPass) error {
		if p.member == nil {
			return nil
		}
		return phase(ctx, p)
	}
}

// removeAgents deletes the Deployments and waits for their pods to end.
func (r *agentRemoval) removeAgents(ctx context.Context, p *klusterletPass) error {
	if err := r.podMonitorRequest(p).RemoveMonitors(ctx, r.management); err != nil {
		return err
	}
	marks := manifests.KlusterletLabels(p.Object)
	_, err := r.management.Applier.Prune(ctx, render.PruneScope{
		Kinds:  []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		Labels: marks,
	}, nil)
	if err != nil {
		return err
	}
	if r.Clock.Since(p.Object.DeletionTimestamp.Time) > podsGoneMax {
		return nil
	}
	if !r.Permissions.Allows(permissions.ReadingAgentPods()) {
		return install.WaitError{After: podsGoneMax} // whether they have ended is not seen
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.MatchingLabels(marks)); err != nil {
		return fmt.Errorf("listing the pods of the agents: %w", err)
	}
	if len(pods.Items) > 0 {
		return install.WaitError{After: podsGonePoll}
	}
	return nil
}

// removeAppliedWorks deletes the AppliedManifestWorks of this Klusterlet's agent
// and takes off the finalizer that the agent would, so that garbage collection
// removes the objects that they own. Those of other agents stay, and all of them if
// another agent takes them over.
func (r *agentRemoval) removeAppliedWorks(ctx context.Context, p *klusterletPass) error {
	works := &workv1.AppliedManifestWorkList{}
	err := p.member.Live.List(ctx, works)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the kind was never installed
	}
	if err != nil {
		return fmt.Errorf("listing AppliedManifestWorks: %w", err)
	}
	if r.hasSuccessorAgent(p, works.Items) {
		return nil
	}
	mayDelete := p.member != r.management || r.Permissions.Allows(permissions.DeletingAppliedWorks())
	var errs []error
	left := 0
	for i := range works.Items {
		work := &works.Items[i]
		if work.Spec.AgentID != string(p.Object.UID) {
			continue
		}
		if mayDelete {
			errs = append(errs, removeAppliedWork(ctx, p.member, work))
			continue
		}
		if work.DeletionTimestamp.IsZero() {
			left++
		}
		// One that changed since it was read may be another agent's by now.
		errs = append(errs, releaseAppliedWork(ctx, p.member, work, client.MergeFromWithOptimisticLock{}))
	}
	if err := errors.Join(errs...); err != nil || left == 0 {
		return err
	}
	install.RecordRemovalWarning(r.Events, p.Object, reasonLeftBehind, fmt.Sprintf(
		"%d AppliedManifestWorks and what they own are left behind: the role of the operator does not let it delete them", left))
	return nil
}

// hasSuccessorAgent reports whether another agent takes over what this Klusterlet's agent
// delivered, so that all of it stays: what that one has not taken yet, too.
func (r *agentRemoval) hasSuccessorAgent(p *klusterletPass, works []workv1.AppliedManifestWork) bool {
	successor := handover.SuccessorOf(works, string(p.Object.UID))
	if successor == "" {
		return false
	}
	left := 0
	for i := range works {
		if works[i].Spec.AgentID == string(p.Object.UID) {
			left++
		}
	}
	install.RecordRemovalWarning(r.Events, p.Object, reasonTakenOver, fmt.Sprintf(
		"agent %q works for the cluster now: %d AppliedManifestWorks that it has not taken over yet stay, with what they own", successor, left))
	return true
}

func removeAppliedWork(ctx context.Context, on *install.Target, work *workv1.AppliedManifestWork) error {
	// Deleted before the finalizer is off: an operator that stops in between
	// must not leave a work without a finalizer that is not being deleted.
	if work.DeletionTimestamp.IsZero() {
		// One that changed since it was read may be another agent's by now.
		same := client.Preconditions{UID: &work.UID, ResourceVersion: &work.ResourceVersion}
		err := on.Client.Delete(ctx, work, same, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting AppliedManifestWork %q: %w", work.Name, err)
		}
	}
	return releaseAppliedWork(ctx, on, work)
}

// releaseAppliedWork takes the finalizer of the agent off, which cannot do so any more.
func releaseAppliedWork(ctx context.Context, on *install.Target, work *workv1.AppliedManifestWork, how ...client.MergeFromOption) error {
	before := work.DeepCopy()
	if !controllerutil.RemoveFinalizer(work, workv1.FinalizerAppliedManifestWorkCleanup) {
		return nil
	}
	err := on.Client.Patch(ctx, work, client.MergeFromWithOptions(before, how...))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of AppliedManifestWork %q: %w", work.Name, err)
	}
	return nil
}

// removeAccess deletes the roles and accounts with the marks of the Klusterlet
// where its agents work.
func (r *agentRemoval) removeAccess(ctx context.Context, p *klusterletPass) error {
	_, err := p.member.Applier.Prune(ctx, render.PruneScope{
		Kinds: []schema.GroupVersionKind{
			rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
			rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		},
		Labels: manifests.KlusterletLabels(p.Object),
	}, nil)
	return err
}

// removeManagementAccess deletes whatever has the marks of the Klusterlet where its
// agents run.
func (r *agentRemoval) removeManagementAccess(ctx context.Context, p *klusterletPass) error {
	kinds := []schema.GroupVersionKind{
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	}
	if r.Permissions.Allows(permissions.ManagingNetworkPolicies()) {
		kinds = append(kinds, networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))
	}
	_, err := r.management.Applier.Prune(ctx, render.PruneScope{Kinds: kinds, Labels: manifests.KlusterletLabels(p.Object)}, nil)
	return err
}

// removeNamespaces deletes the namespaces on the member of the agents or their
// accounts, with what is in them, unless another Klusterlet has its own there.
func (r *agentRemoval) removeNamespaces(ctx context.Context, p *klusterletPass) error {
	remove, err := listFormerNamespaces(ctx, p.member, p.Object)
	if err != nil {
		return err
	}
	current, err := ownNamespace(ctx, p.member, manifests.MemberNamespace(p.Object))
	if err != nil {
		return err
	}
	return r.deleteUnusedNamespaces(ctx, p, p.member, append(remove, current...))
}

// removeManagementNamespace deletes that of hosted agents on the management cluster.
func (r *agentRemoval) removeManagementNamespace(ctx context.Context, p *klusterletPass) error {
	namespace, err := ownNamespace(ctx, r.management, p.Object.Name)
	if err != nil || len(namespace) == 0 || namespace[0].Labels[operatorv1.LabelKlusterlet] != p.Object.Name {
		return err
	}
	return r.deleteUnusedNamespaces(ctx, p, r.management, namespace)
}

// ownNamespace returns the namespace if it is marked as made by us.
func ownNamespace(ctx context.Context, on *install.Target, name string) ([]corev1.Namespace, error) {
	namespace := corev1.Namespace{}
	err := on.Client.Get(ctx, types.NamespacedName{Name: name}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the namespace %q of agents: %w", name, err)
	}
	if namespace.Labels[operatorv1.LabelKlusterlet] == "" { // or there is none
		return nil, nil
	}
	return []corev1.Namespace{namespace}, nil
}

// deleteUnusedNamespaces deletes the namespaces that no other Klusterlet needs.
func (r *agentRemoval) deleteUnusedNamespaces(ctx context.Context, p *klusterletPass, where *install.Target, namespaces []corev1.Namespace) error {
	used, err := r.usedByOthers(ctx, p, where)
	if err != nil {
		return err
	}
	var errs []error
	for i := range namespaces {
		if !used[namespaces[i].Name] && namespaces[i].DeletionTimestamp.IsZero() {
			errs = append(errs, where.DeleteNamespace(ctx, &namespaces[i]))
		}
	}
	return errors.Join(errs...)
}

// usedByOthers returns the namespaces on the cluster of other Klusterlets' agents,
// or of their accounts, whatever cluster their operator runs on.
func (r *agentRemoval) usedByOthers(ctx context.Context, p *klusterletPass, where *install.Target) (map[string]bool, error) {
	used := map[string]bool{r.Settings.Namespace: true}
	accounts := &corev1.ServiceAccountList{}
	if err := where.Live.List(ctx, accounts, client.HasLabels{operatorv1.LabelCreatedByKlusterlet}); err != nil {
		return nil, fmt.Errorf("listing the accounts of agents: %w", err)
	}
	for i := range accounts.Items {
		if accounts.Items[i].Labels[operatorv1.LabelCreatedByKlusterlet] != p.Object.Name {
			used[accounts.Items[i].Namespace] = true
		}
	}
	if where != r.management {
		return used, nil
	}
	staying, err := listOtherKlusterlets(ctx, r.Live, p.Object)
	for i := range staying {
		used[manifests.AgentNamespace(&staying[i])] = true
	}
	return used, err
}

// listOtherKlusterlets returns the Klusterlets that stay.
func listOtherKlusterlets(ctx context.Context, live client.Reader, klusterlet *operatorv1.Klusterlet) ([]operatorv1.Klusterlet, error) {
	list := &operatorv1.KlusterletList{}
	if err := live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Klusterlets: %w", err)
	}
	var staying []operatorv1.Klusterlet
	for _, other := range list.Items {
		if other.Name != klusterlet.Name && other.DeletionTimestamp.IsZero() {
			staying = append(staying, other)
		}
	}
	return staying, nil
}
