// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/fleet/view"
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

// Reserved says why an object is never sent to clusters, as a sentence without its end;
// "" is that it may be. Of the object its namespace, name, labels and annotations
// count. The fleet tells which namespaces are those of clusters.
func Reserved(kind schema.GroupKind, object metav1.Object, clusters view.Fleet) string {
	if why := reserved.Kind(kind); why != "" {
		return fmt.Sprintf("%s is never sent to clusters: %s", kind.Kind, why)
	}
	if why := ReservedNamespace(object.GetNamespace(), clusters); why != "" {
		return fmt.Sprintf("nothing of namespace %s is sent to clusters: %s", object.GetNamespace(), why)
	}
	if why := reserved.Object(kind, object); why != "" {
		return fmt.Sprintf("%s %s is never sent to clusters: %s", kind.Kind, object.GetName(), why)
	}
	return ""
}

// ReservedNamespace says why nothing of a namespace is sent to clusters, as the end of
// a sentence; "" is that it may be. That of a cluster has what the hub connects to it
// with, and what every other would get to be that cluster.
func ReservedNamespace(namespace string, clusters view.Fleet) string {
	if owner := reserved.Namespace(namespace); owner != reserved.Nobody {
		return "it is for " + string(owner)
	}
	if cluster, found := clusters.Cluster(namespace); found && cluster.OwnsNamespace() {
		return "it is that of the cluster " + namespace
	}
	return ""
}
