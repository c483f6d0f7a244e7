// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Names of claims that have a fixed meaning. They come first in the status of
// the ManagedCluster and are not counted against the limit on the number of
// claims.
const (
	// ClaimID is the globally unique ID of the member.
	ClaimID = "id.k8s.io"
	// ClaimKubeVersion is the version of Kubernetes on the member.
	ClaimKubeVersion = "kubeversion.open-cluster-management.io"
	// ClaimPlatform is the platform that the member runs on, such as AWS.
	ClaimPlatform = "platform.open-cluster-management.io"
	// ClaimProduct is the Kubernetes product of the member, such as OpenShift.
	ClaimProduct = "product.open-cluster-management.io"
)

// ReservedNames returns the names of claims that have a fixed meaning, sorted.
func ReservedNames() []string {
	return []string{ClaimID, ClaimKubeVersion, ClaimPlatform, ClaimProduct}
}
