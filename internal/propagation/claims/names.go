// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// PolicyDisplayName returns a policy as people call it, such as PropagationPolicy shop/web; ""
// for none.
func PolicyDisplayName(policy policyv1alpha1.Policy) string {
	switch {
	case policy == nil:
		return ""
	case policy.GetNamespace() == "":
		return "ClusterPropagationPolicy " + policy.GetName()
	default:
		return "PropagationPolicy " + policy.GetNamespace() + "/" + policy.GetName()
	}
}

// BindingNames returns the names that the binding of an object may have. A new one gets the
// first that no binding of another object has:
//   - the name of the object, a hyphen and its kind in lower case, with dots for the colons
//     that names of roles may have;
//   - the same with the group of the kind: kinds of different groups may have the same name;
//   - one with a hash, if neither may be the name of a binding, if the name of the object cannot
//     be read from them, or if objects of which that is so can have taken both: FOO, Foo and foo
//     are three roles.
func BindingNames(kind schema.GroupVersionKind, name string) []string {
	exact := name + "-" + strings.ToLower(kind.Kind)
	usual := strings.ReplaceAll(strings.ToLower(exact), ":", ".")
	names := []string{usual}
	if kind.Group != "" {
		names = append(names, usual+"."+kind.Group)
	}
	valid := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
	if usual == exact && len(valid) == len(names) && kind.Group != rbacv1.GroupName {
		return names
	}
	return append(valid, HashedBindingName(kind, name))
}

// nameHashBytes is how much of a hash is in the name of a binding.
const nameHashBytes = 10

// HashedBindingName returns the last of BindingNames for an object whose own name may not be
// part of the name of a binding, or not as it is. It is different for each object. A binding
// that somebody writes may name a kind that no API server serves: of one that is longer than a
// kind can be, the name has the beginning.
func HashedBindingName(kind schema.GroupVersionKind, name string) string {
	hash := sha256.Sum256([]byte(kind.Kind + "." + kind.Group + "/" + name))
	shown := kind.Kind[:min(len(kind.Kind), validation.DNS1035LabelMaxLength)]
	suffix := "-" + strings.ToLower(shown) + "-" + hex.EncodeToString(hash[:nameHashBytes])
	readable := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	text := strings.Join(readable, "-")
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(text) > most {
		text = text[:most]
	}
	return strings.Trim(text+suffix, "-")
}

// InsteadOfPolicy says how a cluster gets an object that policies never send. Whoever may
// write ManifestWorks administrates the cluster, and may have such an object there.
const InsteadOfPolicy = "what a cluster needs of this, such as the webhooks of an operator, an administrator can bring there with a ManifestWork"

// ReservedReason says why an object is never sent to clusters, as a sentence without its end;
// "" is that it may be. Of the object its namespace, name, labels and annotations
// count. The fleet tells which namespaces are those of clusters.
func ReservedReason(kind schema.GroupKind, object metav1.Object, clusters view.Fleet) string {
	if why := reserved.KindReservedReason(kind); why != "" {
		return fmt.Sprintf("%s is never sent to clusters: %s", kind.Kind, why)
	}
	if why := ReservedNamespace(object.GetNamespace(), clusters); why != "" {
		return fmt.Sprintf("nothing of namespace %s is sent to clusters: %s", object.GetNamespace(), why)
	}
	if why := reserved.ObjectReservedReason(kind, object); why != "" {
		return fmt.Sprintf("%s %s is never sent to clusters: %s", kind.Kind, object.GetName(), why)
	}
	return ""
}

// SentKinds returns the kinds that the selectors of a policy name, without those that are never sent
// to clusters.
func SentKinds(policy policyv1alpha1.Policy) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, s := range policy.PropagationSpec().ResourceSelectors {
		kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		if reserved.KindReservedReason(kind.GroupKind()) == "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// ReservedNamespace says why nothing of a namespace is sent to clusters, as the end of
// a sentence; "" is that it may be. That of a cluster has what the hub connects to it
// with, and what every other would get to be that cluster.
func ReservedNamespace(namespace string, clusters view.Fleet) string {
	if owner := reserved.OwnerOfNamespace(namespace); owner != reserved.Nobody {
		return "it is for " + string(owner)
	}
	if cluster, found := clusters.ClusterNamed(namespace); found && cluster.OwnsNamespace() {
		return "it is that of the cluster " + namespace
	}
	return ""
}
