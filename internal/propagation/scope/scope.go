// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scope defines what propagation leaves alone on a shared hub: one that is
// an ordinary cluster, whose own controllers run what is applied to it.
//
// The package is pure.
package scope

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Hub is a hub as propagation sees it. The zero value is a hub of its own, which
// runs nothing.
type Hub struct {
	// Runs says that the hub is a shared one.
	Runs bool
}

// ServesKind reports whether objects of a kind are sent to clusters. The labels are
// those of their namespace or, if they have none, their own. On a shared hub the
// kinds of Kubernetes are sent only where the label
// fleet.capstan.io/templates=true asks for it: whoever has a Deployment run there
// does not want it in other clusters as well because a policy selects everything.
func (h Hub) ServesKind(kind schema.GroupKind, labels map[string]string) bool {
	return !h.OwnsKind(kind) || labels[fleetv1alpha1.LabelTemplates] == "true"
}

// OwnsKind reports whether controllers of the hub itself act on objects of a kind, and
// write their status.
func (h Hub) OwnsKind(kind schema.GroupKind) bool { return h.Runs && isKubernetesGroup(kind.Group) }

// isKubernetesGroup reports whether an API group is one of Kubernetes itself. Groups that its
// projects define by CustomResourceDefinitions, such as gateway.networking.k8s.io,
// are not.
func isKubernetesGroup(group string) bool {
	switch group {
	case "", "apps", "batch", "autoscaling", "policy",
		"apiextensions.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
		"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io":
		return true
	default:
		return false
	}
}

// RefusalReason says why an object of a kind is not sent from a namespace, or from none,
// and what to do, as the end of a sentence.
func RefusalReason(kind, namespace string) string {
	what := "it"
	if namespace != "" {
		what = fmt.Sprintf("namespace %q", namespace)
	}
	return fmt.Sprintf("this hub is an ordinary cluster, whose own controllers act on kind %s: label %s %s=true to have it sent to clusters as well",
		kind, what, fleetv1alpha1.LabelTemplates)
}
