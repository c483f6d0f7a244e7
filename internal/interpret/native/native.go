// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native interprets the built-in kinds of Kubernetes, one file for
// each. The comment of a kind's rule names what it follows, and
// docs/spec/work/interpretation.md has all of them for users.
//
// It knows no kinds of others: those are shipped as data, or customized.
package native

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native/workloads"
)

// KubernetesKinds is a layer of the kinds of Kubernetes, in all their versions.
type KubernetesKinds struct {
	kinds map[schema.GroupKind]interpret.Operations
}

// NewKubernetesKinds returns the layer.
func NewKubernetesKinds() *KubernetesKinds {
	kinds := map[schema.GroupKind]interpret.Operations{
		{Kind: "Service"}: {
			Health: serviceHealth, Values: serviceValues,
			Prune: servicePrune, Reflect: serviceReflect, Verdict: serviceHealthVerdict, Aggregate: serviceAggregate, Retained: serviceRetained,
		},
		{Group: "networking.k8s.io", Kind: "Ingress"}: {Verdict: ingressHealthVerdict, Aggregate: ingressAggregate, Dependencies: ingressDependencies},
		{Kind: "PersistentVolumeClaim"}: {
			Health: persistentVolumeClaimHealth, Values: persistentVolumeClaimValues,
			Prune: persistentVolumeClaimPrune, Verdict: persistentVolumeClaimHealthVerdict, Aggregate: persistentVolumeClaimAggregate,
			Retained: persistentVolumeClaimRetained,
		},
		{Kind: "PersistentVolume"}: {Prune: persistentVolumePrune, Aggregate: persistentVolumeAggregate, Retained: persistentVolumeRetained},
		{Kind: "Secret"}:           {Prune: secretPrune, Retained: secretRetained},
		{Kind: "ServiceAccount"}:   {Prune: serviceAccountPrune, Dependencies: serviceAccountDependencies},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:         {Prune: clusterRolePrune},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {Health: customResourceDefinitionHealth, Aggregate: ownStatus},
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:             {Health: apiServiceHealth, Aggregate: ownStatus},
		{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}:           {Dependencies: serviceImportDependencies},
		{Kind: "Namespace"}: {Health: namespaceHealth, Deletion: namespaceDeletion, Aggregate: ownStatus},
	}
	maps.Copy(kinds, workloads.WorkloadKinds())
	return &KubernetesKinds{kinds: kinds}
}

// Operations is part of interpret.Layer.
func (k *KubernetesKinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	return k.kinds[kind.GroupKind()]
}

// ownStatus: the hub has such an object itself, and its status is about that.
func ownStatus(map[string]any, []interpret.ClusterItem) map[string]any { return nil }
