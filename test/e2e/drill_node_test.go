// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// drillNodeRestart cuts the power of the host while something writes to the hub:
// when it is back, so is all that the hub had confirmed.
func drillNodeRestart(t *testing.T, d *drill) {
	d.makeHub(t)
	d.join(t)
	before := d.identities(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writer sync.WaitGroup
	var confirmed []string
	writer.Go(func() { confirmed = d.write(ctx) })
	const meanwhile = 10 * time.Second
	time.Sleep(meanwhile)

	start := time.Now()
	if _, err := theLab.run(t.Context(), "stop", d.host.name); err != nil {
		t.Fatal(err)
	}
	stop()
	writer.Wait()
	// What was delivered goes on without the hub.
	d.member.kubectl(t, "-n", "hello", "delete", "configmap", "hello")
	d.member.waitThere(t, "-n", "hello", "configmap", "hello")
	if _, err := theLab.run(t.Context(), "start", d.host.name); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := d.hub.try(t.Context(), "", "get", "--raw", "/readyz")
		return err
	})
	away := time.Since(start)
	d.delivers(t, "after the restart")
	d.host.waitCondition(t, "Available", "True", "-n", drillPlace, "controlplane/"+drillHub)

	there := d.hub.jsonpath(t, "{.items[*].metadata.name}", "-n", "default", "configmaps", "-l", "drill=writes")
	lost := 0
	for _, name := range confirmed {
		if !strings.Contains(" "+there+" ", " "+name+" ") {
			lost++
			t.Errorf("the hub confirmed ConfigMap %s and has lost it", name)
		}
	}
	d.say("host without power and back: %s until the hub answered", away.Round(time.Second))
	d.say("writes confirmed before the power went: %d, lost: %d", len(confirmed), lost)
	d.sameAs(t, before)
	d.say("meanwhile the member mended drift; afterwards it was Available and got a change")
	if len(confirmed) == 0 {
		t.Error("nothing was written before the power went")
	}
	d.leave(t)
}

// write makes ConfigMaps in the hub until the context ends, and returns the names
// of those that the hub has confirmed.
func (d *drill) write(ctx context.Context) (confirmed []string) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("write-%d", n)
		object := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default, labels: {drill: writes}}}", name)
		if _, err := d.hub.try(ctx, object, "create", "-f", "-", "--request-timeout=5s"); err == nil {
			confirmed = append(confirmed, name)
		}
	}
	return confirmed
}
