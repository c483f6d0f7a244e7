// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/reserved"
)

// Name returns a policy as people call it, such as PropagationPolicy shop/web; ""
// for none.
func Name(policy policyv1alpha1.Policy) string {
	switch {
	case policy == nil:
		return ""
	case policy.GetNamespace() == "":
		return "ClusterPropagationPolicy " + policy.GetName()
	default:
		return "PropagationPolicy " + policy.GetNamespace() + "/" + policy.GetName()
	}
}

// BindingName returns the name of the binding of an object: its name, a hyphen
// and its kind in lower case. Names of roles may have colons, which become dots.
// Objects of the same name whose kinds have the same name but another group need
// different bindings: all but the first get the suffix, which is the group.
func BindingName(kind schema.GroupVersionKind, name string) (usual, suffixed string) {
	usual = strings.ReplaceAll(strings.ToLower(name+"-"+kind.Kind), ":", ".")
	suffixed = usual
	if kind.Group != "" {
		suffixed += "." + kind.Group
	}
	return usual, suffixed
}

// Reserved says why an object of a kind in a namespace is never sent to clusters,
// as a sentence without its end; "" is that it may be.
func Reserved(kind schema.GroupKind, namespace string) string {
	if why := reserved.Kind(kind); why != "" {
		return fmt.Sprintf("%s is never sent to clusters: %s", kind.Kind, why)
	}
	if ReservedNamespace(namespace) {
		return fmt.Sprintf("nothing of namespace %s is sent to clusters: it is reserved", namespace)
	}
	return ""
}

// ReservedNamespace tells whether nothing of a namespace is sent to clusters: it
// belongs to the hub itself, to a cluster, or to Kubernetes. In the clusters such
// a namespace has the accounts of agents: whoever could send a pod there would be
// what they are.
func ReservedNamespace(namespace string) bool {
	return slices.Contains([]string{"karmada-system", "karmada-cluster", fleetv1alpha1.DefaultMemberNamespace}, namespace) ||
		slices.ContainsFunc([]string{"kube-", "karmada-es-", "open-cluster-management"}, func(prefix string) bool {
			return strings.HasPrefix(namespace, prefix)
		})
}
