// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"context"
	"testing"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/syncmode/harness"
)

// leftMin is how much has to be left to take over when the Klusterlet is deleted.
const leftMin = harness.ManyWorks / 4

// TestAKlusterletMayBeDeletedBeforeAllIsTakenOver attacks what runs on a cluster
// that goes from Pull to Push: its Klusterlet is deleted while the push agent has
// some of the records, and the agent before the others.
func TestAKlusterletMayBeDeletedBeforeAllIsTakenOver(t *testing.T) {
	l := harness.NewLab(t, servers)
	l.StartGarbageCollector()
	installed := l.CreateKlusterlet()
	l.Agent = string(installed.UID)
	l.StartPull()
	l.StartPush()
	l.IsPullCluster()
	for i := range harness.ManyWorks {
		l.CreateOnHub(workload(i))
	}
	l.AreOwnedBy(l.Agent, harness.ManyWorks)
	before := l.AllDelivered()

	l.Endpoint = harness.FarAway(t, l.Member.Config.Host, harness.OneWay)
	l.AgentSecret()
	connection := l.ApplyConnection(fleetv1alpha1.SyncModePush)
	l.Eventually("the push agent to take over the first record", func(ctx context.Context) string {
		if taken := l.CountRecords(ctx)[string(connection.UID)]; taken == 0 {
			return "it has none"
		}
		return ""
	})
	l.RemoveKlusterlet(installed)
	if left := l.CountRecords(t.Context())[l.Agent]; left < leftMin {
		t.Errorf("only %d records are left to take over when the Klusterlet is gone, want %d: else this proves nothing", left, leftMin)
	}
	l.AreOwnedBy(string(connection.UID), harness.ManyWorks) // so the mark is gone as well
	l.CollectGarbage()
	l.NothingLost(before)
}
