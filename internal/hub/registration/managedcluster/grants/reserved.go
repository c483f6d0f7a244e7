// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// UnusableReason says why no cluster can have the name, or "" if one can. Such a
// name would make the objects of the cluster collide with those of others:
//
//   - "managed-clusters" has the group of all agents as its own,
//   - "registration" and "work" have the shared roles as their own,
//   - "default", kube-… and those of the fleet have a namespace that everybody, or the
//     hub, uses. On OpenShift admission refuses its names, too.
func UnusableReason(cluster string) string {
	if problems := validation.IsDNS1123Label(cluster); len(problems) > 0 {
		return fmt.Sprintf("%q is not a valid namespace name: %s", cluster, strings.Join(problems, "; "))
	}
	owner := reserved.OwnerOfNamespace(cluster)
	if slices.Contains([]string{"managed-clusters", "registration", "work", "default"}, cluster) || owner != reserved.Nobody && owner != reserved.OpenShift {
		return fmt.Sprintf("the name %q is reserved; give the cluster another name", cluster)
	}
	return ""
}
