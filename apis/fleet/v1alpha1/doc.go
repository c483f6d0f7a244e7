// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has ClusterConnection, which tells how the hub and a member
// reach each other and what the agent saw there. It is the one group of our
// own: kinds of others get no further fields, as their clients would drop them.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=fleet.capstan.io
package v1alpha1
