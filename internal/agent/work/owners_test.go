// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// TestOwnersThatNobodyKnowsAreNotQueued has objects in a member with owners of its invention. The
// queue is that of all clusters, and what a cluster has no worker for is kept.
func TestOwnersThatNobodyKnowsAreNotQueued(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	agent := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	s.condition("w", workv1.ManifestWorkConditionApplied, metav1.ConditionTrue)
	cluster := agent.part.clusterOf(fleet.ClusterName(s.cluster))
	change := inventory.ObjectChange{Object: apply.ObjectRef{Resource: "configmaps", Namespace: s.ns(), Name: "a"}}
	const many = 50_000
	for i := range many {
		name := fmt.Sprintf("nobody-%d", i)
		for _, record := range []string{name, cluster.ledger.RecordName(name)} {
			change.Owners = append(change.Owners, &inventory.Owner{UID: types.UID(record), Name: record})
		}
	}
	cluster.objectChanged(change)
	if waiting := cluster.queue.Len(); waiting > many/100 {
		t.Errorf("%d requests wait for a worker", waiting)
	}
}
