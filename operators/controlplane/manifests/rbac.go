// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

// What the operator may do in the namespace of a ControlPlane, where somebody
// binds the role to it. Names follow that of the ControlPlane, so no rule has any.
//
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;services,verbs=get;list;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;create;update;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;create;update;patch;delete
