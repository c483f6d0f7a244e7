// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// drillNodeRestart cuts the power of the host while something writes to the hub:
// when it is back, so is all that the hub had confirmed.
func drillNodeRestart(t *testing.T, d *harness.Drill) {
	d.MakeHub(t)
	d.JoinMember(t)
	before := d.Identities(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writer sync.WaitGroup
	var confirmed []string
	writer.Go(func() { confirmed = d.WriteAllTheTime(ctx) })
	const meanwhile = 10 * time.Second
	time.Sleep(meanwhile)

	start := time.Now()
	if _, err := theLab.RunLab(t.Context(), "stop", d.Host.Name); err != nil {
		t.Fatal(err)
	}
	stop()
	writer.Wait()
	// What was delivered goes on without the hub.
	d.Member.RunKubectl(t, "-n", "hello", "delete", "configmap", "hello")
	d.Member.AwaitThere(t, "-n", "hello", "configmap", "hello")
	if _, err := theLab.RunLab(t.Context(), "start", d.Host.Name); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, func() error {
		_, err := d.Hub.TryKubectl(t.Context(), "", "get", "--raw", "/readyz")
		return err
	})
	away := time.Since(start)
	d.DeliversWork(t, "after the restart")
	d.Host.AwaitCondition(t, "Available", "True", "-n", harness.DrillPlace, "controlplane/"+harness.DrillHub)

	there := d.Hub.ReadPath(t, "{.items[*].metadata.name}", "-n", "default", "configmaps", "-l", "drill=writes")
	lost := 0
	for _, name := range confirmed {
		if !strings.Contains(" "+there+" ", " "+name+" ") {
			lost++
			t.Errorf("the hub confirmed ConfigMap %s and has lost it", name)
		}
	}
	d.NoteLine("host without power and back: %s until the hub answered", away.Round(time.Second))
	d.NoteLine("writes confirmed before the power went: %d, lost: %d", len(confirmed), lost)
	d.SameAs(t, before)
	d.NoteLine("meanwhile the member mended drift; afterwards it was Available and got a change")
	if len(confirmed) == 0 {
		t.Error("nothing was written before the power went")
	}
	d.MemberLeaves(t)
}
