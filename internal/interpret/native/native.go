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

// Kinds is a layer of the kinds of Kubernetes, in all their versions.
type Kinds struct {
	kinds map[schema.GroupKind]interpret.Operations
}

// New returns the layer.
func New() *Kinds {
	kinds := map[schema.GroupKind]interpret.Operations{
		{Kind: "Service"}: {
			Health: serviceHealth, Values: serviceValues,
			Prune: servicePrune, Reflect: serviceReflect, Verdict: serviceVerdict, Aggregate: serviceAggregate, Retained: serviceRetained,
		},
		{Group: "networking.k8s.io", Kind: "Ingress"}: {Verdict: ingressVerdict, Aggregate: ingressAggregate, Dependencies: ingressDependencies},
		{Kind: "PersistentVolumeClaim"}: {
			Health: persistentVolumeClaimHealth, Values: persistentVolumeClaimValues,
			Prune: persistentVolumeClaimPrune, Verdict: persistentVolumeClaimVerdict, Aggregate: persistentVolumeClaimAggregate,
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
	maps.Copy(kinds, workloads.Kinds())
	return &Kinds{kinds: kinds}
}

// Operations is part of interpret.Layer.
func (k *Kinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	return k.kinds[kind.GroupKind()]
}

// ownStatus: the hub has such an object itself, and its status is about that.
func ownStatus(map[string]any, []interpret.Item) map[string]any { return nil }
