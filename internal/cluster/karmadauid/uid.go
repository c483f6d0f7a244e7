// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karmadauid returns the UIDs that objects of the fleet have when they are
// shown in Karmada's API, for those who serve them and those who tell of them. They
// are others than those of the stored objects, because the two are different
// objects, and the same for each replica and each release.
package karmadauid

import (
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// WorkUID returns the UID of the Work of a ManifestWork.
func WorkUID(stored types.UID) types.UID {
	return namespacedUID(uuid.UUID{0x7b, 0x41, 0x1d, 0x90, 0x2e, 0x6f, 0x4c, 0x58, 0xa3, 0x0d, 0x95, 0xc6, 0x1f, 0x72, 0xe8, 0x3b}, stored)
}

// ClusterUID returns the UID of the Cluster of a ManagedCluster.
func ClusterUID(managed types.UID) types.UID {
	return namespacedUID(uuid.UUID{0x2f, 0x0c, 0x6a, 0x52, 0x8d, 0x1e, 0x4b, 0x7a, 0x9e, 0x35, 0x61, 0x7c, 0xd4, 0x08, 0xb3, 0x9a}, managed)
}

func namespacedUID(namespace uuid.UUID, uid types.UID) types.UID {
	return types.UID(uuid.NewSHA1(namespace, []byte(uid)).String())
}
