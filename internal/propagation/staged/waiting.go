// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staged

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// keeps is what is said of the latest change and of clusters that wait for it.
const keeps = " keeps the latest change from the cluster until its turn: "

// WaitingMessage says for whom a cluster waits. A rollout without a namespace is a
// ClusterPropagationRollout.
func WaitingMessage(rollout types.NamespacedName) string {
	kind := "ClusterPropagationRollout"
	command := rollout.Name + " --cluster-scoped"
	if rollout.Namespace != "" {
		kind = "PropagationRollout"
		command = rollout.Name + " -n " + rollout.Namespace
	}
	return fmt.Sprintf("%s %q%s\"capstan rollout status %s\" says when that is", kind, rollout.Name, keeps, command)
}

// IsWaitingMessage reports whether a binding says of a cluster that it waits.
func IsWaitingMessage(message string) bool { return strings.Contains(message, keeps) }
