// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"slices"
	"strings"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// NamespaceOwner is whose a namespace is.
type NamespaceOwner string

// The owners.
const (
	// Nobody is that the namespace is for whoever creates it.
	Nobody     NamespaceOwner = ""
	Kubernetes NamespaceOwner = "Kubernetes"
	// Fleet is what Capstan and the systems whose APIs it serves are made of.
	Fleet NamespaceOwner = "the fleet's own components"
	// OpenShift reserves a prefix on its clusters. On others anybody may have it.
	OpenShift NamespaceOwner = "OpenShift"
)

// OwnerOfNamespace returns whose a namespace is by its name. Nothing of another's is sent to
// clusters, where such a namespace has the accounts of agents and of Kubernetes:
// whoever could send a pod there would be what they are. Namespaces of clusters are
// reserved as well, but not told by their names.
func OwnerOfNamespace(name string) NamespaceOwner {
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	switch {
	case begins("kube-"):
		return Kubernetes
	case begins("openshift-"):
		return OpenShift
	case begins("karmada-es-"), name == "open-cluster-management", begins("open-cluster-management-"),
		slices.Contains([]string{"karmada-system", clusterv1alpha1.SecretsNamespace, fleetv1alpha1.DefaultMemberNamespace}, name):
		return Fleet
	default:
		return Nobody
	}
}
