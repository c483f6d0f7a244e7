// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/references"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// Kinds are what policies need.
type Kinds struct {
	// Templates are selected by a policy, Dependencies are what these may refer to.
	Templates, Dependencies sets.Set[schema.GroupVersionKind]
	// along are the templates with which goes what they refer to.
	along sets.Set[schema.GroupVersionKind]
}

func newKinds() Kinds {
	return Kinds{sets.New[schema.GroupVersionKind](), sets.New[schema.GroupVersionKind](), sets.New[schema.GroupVersionKind]()}
}

// addPolicy adds what a policy needs. It returns why it does not get some kinds.
func (k Kinds) addPolicy(spec policyv1alpha1.PropagationSpec) string {
	var refused []string
	for _, selector := range spec.ResourceSelectors {
		kind := schema.FromAPIVersionAndKind(selector.APIVersion, selector.Kind)
		if why := reserved.KindReservedReason(kind.GroupKind()); why != "" {
			if sentence := fmt.Sprintf("%s of %s: %s", selector.Kind, selector.APIVersion, why); !slices.Contains(refused, sentence) {
				refused = append(refused, sentence)
			}
			continue
		}
		k.Templates.Insert(kind)
		if spec.PropagateDeps {
			k.along.Insert(kind)
			k.addReferableKinds(kind)
		}
	}
	return strings.Join(refused, "; ")
}

// addReferableKinds adds the kinds that objects of a kind may refer to, and those that these
// may refer to.
func (k Kinds) addReferableKinds(from schema.GroupVersionKind) {
	for _, kind := range referableKinds(from.GroupKind()) {
		if !k.Dependencies.Has(kind) {
			k.Dependencies.Insert(kind)
			k.addReferableKinds(kind)
		}
	}
}

// addBindingReferences adds the kinds that a binding says its object refers to: what customizations
// of its kind say is known by that alone.
func (k Kinds) addBindingReferences(b workv1alpha2.Binding) {
	if !k.along.Has(bindingKind(b)) {
		return
	}
	for kind := range unforeseenKinds(b) {
		k.Dependencies.Insert(kind)
	}
}

// unforeseenKinds are the kinds that a binding says its object refers to and that are
// not known by the kind of the object.
func unforeseenKinds(b workv1alpha2.Binding) sets.Set[schema.GroupVersionKind] {
	named, err := references.BindingReferences(b)
	if err != nil {
		return nil // its controller writes it anew
	}
	foreseen := newKinds()
	kinds := sets.New[schema.GroupVersionKind]()
	foreseen.addReferableKinds(bindingKind(b))
	for _, reference := range named {
		kind := reference.GroupVersionKind()
		if !foreseen.Dependencies.Has(kind) && reserved.KindReservedReason(kind.GroupKind()) == "" {
			kinds.Insert(kind)
		}
	}
	return kinds
}

func bindingKind(b workv1alpha2.Binding) schema.GroupVersionKind {
	of := b.BindingSpec().Resource
	return schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
}

// referableKinds are the kinds that objects of a kind may refer to.
func referableKinds(from schema.GroupKind) []schema.GroupVersionKind {
	core := func(kinds ...string) []schema.GroupVersionKind {
		var list []schema.GroupVersionKind
		for _, kind := range kinds {
			list = append(list, corev1.SchemeGroupVersion.WithKind(kind))
		}
		return list
	}
	switch from.String() {
	case "Pod", "ReplicationController", "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "CronJob.batch":
		return core("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")
	case "ServiceAccount", "Ingress.networking.k8s.io":
		return core("Secret")
	case "ServiceImport.multicluster.x-k8s.io":
		return append(core("Service"), schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"})
	default:
		return nil
	}
}
