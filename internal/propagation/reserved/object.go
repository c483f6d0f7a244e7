// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

const (
	// bootstrapping is the label of the roles that an API server restores to what they
	// were when it starts.
	bootstrapping = "kubernetes.io/bootstrapping"
	// electionRecord is the annotation of what replicas elect their leader by, other
	// than Leases.
	electionRecord = "control-plane.alpha.kubernetes.io/leader"
)

// ObjectReservedReason tells why one object is never sent to clusters although others of its kind
// and its namespace may be; "" is that it may be. Policies that select all objects
// of a kind do not mean these.
func ObjectReservedReason(of schema.GroupKind, object metav1.Object) string {
	name := object.GetName()
	_, boots := object.GetLabels()[bootstrapping]
	_, ofHub := object.GetLabels()[operatorv1.LabelCreatedByClusterManager]
	_, elects := object.GetAnnotations()[electionRecord]
	switch {
	case of.Group == rbacv1.GroupName && (boots || slices.Contains(defaultRoles(of.Kind), name)):
		return "each cluster has its own from Kubernetes"
	case of.Group == rbacv1.GroupName && strings.HasPrefix(name, "system:"):
		return "names that begin with system: are for those of Kubernetes"
	case ofHub && slices.Contains([]string{corev1.GroupName, rbacv1.GroupName}, of.Group):
		return "it is part of the hub itself"
	case of == coreGroupKind("ConfigMap") && slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt"}, name):
		return "each cluster makes its own"
	case of == coreGroupKind("Secret") && slices.Contains([]string{fleetv1alpha1.DefaultSecretName, fleetv1alpha1.ImpersonatorSecretName}, name):
		return "it has the hub's credentials for a cluster"
	case elects:
		return "it says which replica leads on the hub"
	default:
		return ""
	}
}

// defaultRoles are the names without prefix of what Kubernetes grants in each cluster.
func defaultRoles(kind string) []string {
	switch kind {
	case "ClusterRole":
		return []string{"cluster-admin", "admin", "edit", "view"}
	case "ClusterRoleBinding":
		return []string{"cluster-admin"}
	default:
		return nil
	}
}

func coreGroupKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: corev1.GroupName, Kind: kind}
}
