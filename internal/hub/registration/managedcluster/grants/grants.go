// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
)

// Names of the objects.
const (
	// namePrefix begins the names of all roles and bindings of clusters.
	namePrefix = "open-cluster-management:managedcluster:"
	// RegistrationRole is the ClusterRole that the registration agents of all
	// clusters have in the namespaces of their clusters.
	RegistrationRole = namePrefix + "registration"
	// WorkRole is the ClusterRole that the work agents of all clusters have in the
	// namespaces of their clusters.
	WorkRole = namePrefix + "work"
)

// ClusterRoleName returns the name of the ClusterRole, and of its binding, of
// one cluster.
func ClusterRoleName(cluster string) string { return namePrefix + cluster }

// RegistrationRoleBindingName returns the name of the binding of RegistrationRole
// in the namespace of a cluster.
func RegistrationRoleBindingName(cluster string) string {
	return namePrefix + cluster + ":registration"
}

// WorkRoleBindingName returns the name of the binding of WorkRole in the namespace
// of a cluster.
func WorkRoleBindingName(cluster string) string { return namePrefix + cluster + ":work" }

// Namespace returns the namespace of a cluster.
func Namespace(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: clusterLabels(cluster)}}
}

// ClusterRole returns the permissions of a cluster outside of its namespace.
// One that is not accepted any more may read its own ManagedCluster, to see when
// that changes, and no more.
func ClusterRole(cluster string, accepted bool) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ClusterRoleName(cluster), Labels: clusterLabels(cluster)}}
	own := []string{cluster}
	if !accepted {
		role.Rules = []rbacv1.PolicyRule{{
			APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: own,
			Verbs: []string{"get", "list", "watch"},
		}}
		return role
	}
	role.Rules = []rbacv1.PolicyRule{
		{
			APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
			Verbs: []string{"create", "get", "list", "watch"},
		},
		{
			// The empty name is that of the check that klusterlets of OCM make, which
			// names no cluster. It allows nothing about another cluster: the hub always
			// asks about one by its name.
			APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{clusterv1.ClientCertificatesResource},
			ResourceNames: []string{cluster, ""}, Verbs: []string{"renew"},
		},
		{
			APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: own,
			Verbs: []string{"get", "list", "update", "watch"},
		},
		{
			APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters/status"}, ResourceNames: own,
			Verbs: []string{"patch", "update"},
		},
		{
			APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, ResourceNames: own,
			Verbs: []string{"get", "list", "watch"},
		},
		{
			APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections/status"}, ResourceNames: own,
			Verbs: []string{"patch"},
		},
	}
	return role
}

// CustomizationReaderRule lets an agent read what users of the hub say of the objects that
// propagation sends: they are interpreted where they are. It is the only rule about
// something that is not the cluster's; customizations are for all clusters, and hold
// no secret.
func CustomizationReaderRule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{configv1alpha1.GroupName}, Resources: []string{"resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"},
		Verbs: []string{"get", "list", "watch"},
	}
}

// ClusterRoleBinding binds the ClusterRole of a cluster.
func ClusterRoleBinding(cluster string, to ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ClusterRoleName(cluster), Labels: clusterLabels(cluster)},
		RoleRef:    roleRef(ClusterRoleName(cluster)),
		Subjects:   to,
	}
}

// RegistrationRoleBinding binds RegistrationRole in the namespace of a cluster.
func RegistrationRoleBinding(cluster string, to ...rbacv1.Subject) *rbacv1.RoleBinding {
	return roleBinding(cluster, RegistrationRoleBindingName(cluster), RegistrationRole, to)
}

// WorkRoleBinding binds WorkRole in the namespace of a cluster. Its finalizer keeps
// it, when the namespace is deleted, until the agent has cleaned up the works.
func WorkRoleBinding(cluster string, to ...rbacv1.Subject) *rbacv1.RoleBinding {
	b := roleBinding(cluster, WorkRoleBindingName(cluster), WorkRole, to)
	b.Finalizers = []string{clusterv1.FinalizerManifestWorkCleanup}
	return b
}

// SharedRoles returns the ClusterRoles that the bindings of all clusters name.
func SharedRoles() []*rbacv1.ClusterRole {
	events := []rbacv1.PolicyRule{{
		APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
		Verbs: []string{"create", "patch", "update"},
	}}
	registration := []rbacv1.PolicyRule{
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{clusterv1.LeaseName}, Verbs: []string{"get", "list", "watch", "update"},
		},
		{
			APIGroups: []string{"addon.open-cluster-management.io"}, Resources: []string{"managedclusteraddons"},
			Verbs: []string{"get", "list", "watch"},
		},
		{
			APIGroups: []string{"addon.open-cluster-management.io"}, Resources: []string{"managedclusteraddons/status"},
			Verbs: []string{"patch", "update"},
		},
	}
	work := []rbacv1.PolicyRule{
		{
			APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks"},
			Verbs: []string{"get", "list", "watch", "update", "patch"},
		},
		{
			APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks/status"},
			Verbs: []string{"patch", "update"},
		},
	}
	return []*rbacv1.ClusterRole{
		{
			ObjectMeta: metav1.ObjectMeta{Name: RegistrationRole, Labels: clusterLabels("")},
			Rules:      append(registration, events...),
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: WorkRole, Labels: clusterLabels("")},
			Rules:      append(work, events...),
		},
	}
}

// InitialLease returns the lease of a cluster as it is before an agent renews it for
// the first time. From now on the agent has five durations to do so.
func InitialLease(cluster string, durationSeconds int32, now time.Time) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now)
	holder := clusterv1.LeaseName
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: clusterv1.LeaseName, Labels: clusterLabels(cluster)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &durationSeconds, RenewTime: &renewed,
		},
	}
}

func roleBinding(cluster, name, role string, to []rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Labels: clusterLabels(cluster)},
		RoleRef:    roleRef(role),
		Subjects:   to,
	}
}

func roleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func clusterLabels(cluster string) map[string]string {
	return map[string]string{clusterv1.LabelClusterName: cluster}
}
