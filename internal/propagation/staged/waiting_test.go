// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staged

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestWaiting(t *testing.T) {
	for want, of := range map[string]types.NamespacedName{
		`PropagationRollout "web" keeps the latest change from the cluster until its turn: "capstan rollout status web -n shop" says when that is`:                 {Namespace: "shop", Name: "web"},
		`ClusterPropagationRollout "all" keeps the latest change from the cluster until its turn: "capstan rollout status all --cluster-scoped" says when that is`: {Name: "all"},
	} {
		if got := WaitingMessage(of); got != want || !IsWaitingMessage(got+".") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if IsWaitingMessage("The cluster has not applied the latest change yet.") {
		t.Error("a cluster that is slow is taken for one that waits")
	}
}
