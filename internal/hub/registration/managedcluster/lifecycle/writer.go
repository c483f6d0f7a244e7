// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/kube/deletion"
	"github.com/capstan-io/capstan/internal/kube/rights"
)

// clusterWriter brings the objects of a cluster to the API server.
type clusterWriter struct {
	client client.Client
	live   client.Reader
	// ownNamespace is where the hub's components are, and so the push agent.
	ownNamespace string
	// rights are those of the hub, which can give a cluster no more.
	rights rights.Rights
	// mirrored says that ClusterConnections have the labels of their ManagedClusters,
	// and no others.
	mirrored bool
	pods     podCounts
	// customizations says that agents may read those of the hub.
	customizations bool
}

// limitRole leaves the role what the hub can grant.
func (w *clusterWriter) limitRole(role *rbacv1.ClusterRole) *rbacv1.ClusterRole {
	role.Rules, _ = w.rights.SplitGrantable(role.Rules)
	return role
}

// grantAccess makes sure that all objects of an accepted cluster are there. It
// returns why they cannot be if the namespace is not for the cluster.
// The identity of the cluster is "" if it is not known.
func (w *clusterWriter) grantAccess(ctx context.Context, mc *clusterv1.ManagedCluster, id string, now time.Time) (string, error) {
	name := mc.Name
	why := ""
	push, err := w.isPushCluster(ctx, name)
	if err != nil {
		return "", err
	}
	to := w.agentSubjects(mc, push)
	// A binding needs the role it names, and an object its namespace; all else
	// goes in parallel.
	err = runTogether(ctx,
		func(ctx context.Context) error { return w.ensureOwnRole(ctx, mc, true, to) },
		func(ctx context.Context) error {
			if err := w.shareRoles(ctx); err != nil {
				return err
			}
			var err error
			if why, err = w.ensureNamespace(ctx, name); err != nil || why != "" {
				return err
			}
			return runTogether(ctx,
				func(ctx context.Context) error {
					return w.ensureObject(ctx, desiredRoleBinding(grants.RegistrationRoleBinding(name, to...)))
				},
				func(ctx context.Context) error {
					return w.ensureObject(ctx, desiredRoleBinding(grants.WorkRoleBinding(name, to...)))
				},
				func(ctx context.Context) error { return w.ensureCredentials(ctx, name, push) },
				func(ctx context.Context) error {
					if err := w.ensureConnection(ctx, name, id); err != nil {
						return err
					}
					return w.pods.requestPodCounts(ctx, w, name)
				},
				func(ctx context.Context) error {
					return w.ensureObject(ctx, desiredLease(grants.InitialLease(name, mc.Spec.LeaseDurationSeconds, now)))
				},
			)
		},
	)
	return why, err
}

// reduceAccess takes what accepted clusters have. One that was accepted before keeps the
// right to read its own ManagedCluster, any other one nothing, not even what an
// earlier release gave it.
func (w *clusterWriter) reduceAccess(ctx context.Context, mc *clusterv1.ManagedCluster, acceptedBefore bool) error {
	name := mc.Name
	return runTogether(ctx,
		func(ctx context.Context) error {
			if acceptedBefore {
				return w.ensureOwnRole(ctx, mc, false, w.agentSubjects(mc, false))
			}
			return errors.Join(w.removeObject(ctx, grants.ClusterRoleBinding(name)), w.removeObject(ctx, grants.ClusterRole(name, false)))
		},
		func(ctx context.Context) error { return w.ensureCredentials(ctx, name, false) },
		func(ctx context.Context) error { return w.removeObject(ctx, grants.RegistrationRoleBinding(name)) },
		func(ctx context.Context) error { return w.removeObject(ctx, grants.WorkRoleBinding(name)) },
	)
}

// revokeAccess removes everything but the namespace, and the work binding as long as
// works need it. It reports whether nothing is left.
func (w *clusterWriter) revokeAccess(ctx context.Context, name string) (bool, error) {
	done := true
	err := runTogether(ctx,
		func(ctx context.Context) error { return w.removeObject(ctx, grants.ClusterRoleBinding(name)) },
		func(ctx context.Context) error { return w.removeObject(ctx, grants.ClusterRole(name, false)) },
		func(ctx context.Context) error { return w.removeObject(ctx, grants.RegistrationRoleBinding(name)) },
		func(ctx context.Context) error { return w.ensureCredentials(ctx, name, false) },
		func(ctx context.Context) error { return w.removeLease(ctx, name) },
		func(ctx context.Context) error {
			remain, err := w.worksRemain(ctx, name)
			if err != nil || remain {
				done = false
				return err
			}
			return w.removeObject(ctx, grants.WorkRoleBinding(name))
		},
	)
	return done, err
}

// removeLeftovers removes what a ManagedCluster that is gone has left behind.
func (w *clusterWriter) removeLeftovers(ctx context.Context, name string) error {
	if grants.UnusableReason(name) != "" {
		return nil // it never had anything, and the names may be those of others
	}
	if _, err := w.revokeAccess(ctx, name); err != nil {
		return err
	}
	return w.unshareRoles(ctx, name)
}

// ensureNamespace makes sure of the namespace. One that exists and does not have the
// label of this cluster belongs to someone else.
func (w *clusterWriter) ensureNamespace(ctx context.Context, name string) (why string, err error) {
	have := &corev1.Namespace{}
	err = w.client.Get(ctx, client.ObjectKey{Name: name}, have)
	if apierrors.IsNotFound(err) {
		err = w.client.Create(ctx, grants.Namespace(name), client.FieldOwner(fieldOwner))
		if !apierrors.IsAlreadyExists(err) {
			return "", wrapObjectError(err, "creating", "Namespace", name)
		}
		if err = w.live.Get(ctx, client.ObjectKey{Name: name}, have); apierrors.IsNotFound(err) {
			return "", apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, name, fmt.Errorf("it was deleted in the meantime"))
		}
	}
	if err != nil {
		return "", wrapObjectError(err, "reading", "Namespace", name)
	}
	switch {
	case have.Labels[clusterv1.LabelClusterName] != name:
		return fmt.Sprintf("the namespace %q exists but does not belong to this cluster; give the cluster another name or, "+
			"if the namespace is intended for it, label it: kubectl label namespace %s %s=%s",
			name, name, clusterv1.LabelClusterName, name), nil
	case !have.DeletionTimestamp.IsZero():
		if err := w.letNamespaceGo(ctx, name); err != nil {
			return "", err
		}
		return fmt.Sprintf("the namespace %q is being deleted; it is recreated once it is gone", name), nil
	}
	return "", nil
}

// letNamespaceGo takes the finalizer off the work binding in a namespace that
// is being deleted, once the agent does not need it any more.
func (w *clusterWriter) letNamespaceGo(ctx context.Context, name string) error {
	remain, err := w.worksRemain(ctx, name)
	if err != nil || remain {
		return err
	}
	return w.removeObject(ctx, grants.WorkRoleBinding(name))
}

// ownsNamespace reports whether the namespace is that of the cluster: it has its label,
// or the agent was given rights there before somebody took the label away.
func (w *clusterWriter) ownsNamespace(ctx context.Context, name string) (bool, error) {
	binding := grants.WorkRoleBinding(name)
	namespace := &corev1.Namespace{}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(binding), binding); !apierrors.IsNotFound(err) {
		return err == nil, wrapObjectError(err, "reading", "RoleBinding", client.ObjectKeyFromObject(binding).String())
	}
	// The cache has labelled namespaces only, and may be behind.
	err := w.live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, wrapObjectError(err, "reading", "Namespace", name)
	}
	return namespace.Labels[clusterv1.LabelClusterName] == name, nil
}

// worksRemain asks the API server: a cache may not know yet of a work that was
// made a moment ago. Where works are not known any more, none remain: the
// definition goes only after them.
func (w *clusterWriter) worksRemain(ctx context.Context, namespace string) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWorkList"})
	err := w.live.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("listing ManifestWorks in namespace %q: %w", namespace, err)
	}
	return len(list.Items) > 0, nil
}

// removeLease removes the lease: a cluster that gets the name later must not
// be judged by it. Leases are not read for it, so the delete may find none.
func (w *clusterWriter) removeLease(ctx context.Context, name string) error {
	have := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: name, Name: clusterv1.LeaseName}
	if err := w.client.Get(ctx, key, have); err != nil {
		return client.IgnoreNotFound(err)
	}
	return wrapObjectError(client.IgnoreNotFound(deletion.DeleteObject(ctx, w.client, have, nil)), "deleting", "Lease", key.String())
}

// removeObject deletes an object if it is there, without its finalizer.
func (w *clusterWriter) removeObject(ctx context.Context, obj client.Object) error {
	kind := fmt.Sprintf("%T", obj)
	key := client.ObjectKeyFromObject(obj)
	err := w.client.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return wrapObjectError(err, "reading", kind, key.String())
	}
	if controllerutil.RemoveFinalizer(obj, clusterv1.FinalizerManifestWorkCleanup) {
		if err := w.client.Update(ctx, obj); err != nil {
			return wrapObjectError(client.IgnoreNotFound(err), "removing the finalizer of", kind, key.String())
		}
	}
	uid := obj.GetUID()
	err = w.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		err = nil // it is another one by now; its event brings us back
	}
	return wrapObjectError(client.IgnoreNotFound(err), "deleting", kind, key.String())
}

// shareRoles makes sure of the roles that all clusters use.
func (w *clusterWriter) shareRoles(ctx context.Context) error {
	for _, role := range grants.SharedRoles() {
		if err := w.ensureObject(ctx, desiredClusterRole(w.limitRole(role))); err != nil {
			return err
		}
	}
	return nil
}

// unshareRoles removes the shared roles with the last cluster, whose name it
// is given. If another cluster is accepted at this very moment, the deletion
// of the roles is an event that makes them again.
func (w *clusterWriter) unshareRoles(ctx context.Context, last string) error {
	clusters := &clusterv1.ManagedClusterList{}
	if err := w.client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ManagedClusters: %w", err)
	}
	for i := range clusters.Items {
		if mc := &clusters.Items[i]; mc.Name != last && mc.Spec.HubAcceptsClient {
			return nil
		}
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := w.client.List(ctx, bindings, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing RoleBindings: %w", err)
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Name == grants.WorkRoleBindingName(b.Namespace) && b.Namespace != last {
			return nil
		}
	}
	remain, err := w.worksRemain(ctx, last)
	if err != nil || remain {
		return err
	}
	for _, role := range grants.SharedRoles() {
		if err := w.removeObject(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

func wrapObjectError(err error, doing, kind, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %q: %w", doing, kind, name, err)
}
