// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 contains ManifestWork, with which the hub delivers objects to a
// member, and AppliedManifestWork, the agent's record on the member of what it
// applied.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=work.open-cluster-management.io
package v1
