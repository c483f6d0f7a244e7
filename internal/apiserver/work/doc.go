// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work serves Works: each is a view of one ManifestWork that a binding
// made, in the namespace karmada-es-<cluster> for that of the cluster. They can be
// suspended; all else is read only.
package work

// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;patch
