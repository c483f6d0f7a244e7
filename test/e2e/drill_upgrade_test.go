// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// drillUpgrade brings a hub to the next minor version of Kubernetes, and tries to
// bring it further and back.
func drillUpgrade(t *testing.T, d *harness.Drill) {
	d.LoadImages(t, "older.tar")
	older, newer := moduleVersion(t, "test/lab/older"), moduleVersion(t, "test/lab")
	plane := []string{"-n", harness.DrillPlace, "controlplane/" + harness.DrillHub}
	d.MakeHub(t, "--kubernetes-version", older)
	d.JoinMember(t)
	before := d.Identities(t)
	upgrade := func(to string) []string { return d.OnHost("upgrade", "--kubernetes-version", to) }

	d.IsRefused(t, "is more than one minor version after "+older, upgrade(minorAfter(t, newer, 1))...)
	d.IsRefused(t, "is an older minor version than "+older, upgrade(minorAfter(t, older, -1))...)
	if spec := d.Host.ReadPath(t, "{.spec.version}", plane...); spec != older {
		t.Errorf("an upgrade that was refused has set spec.version to %s", spec)
	}
	d.NoteLine("from %s, two minor versions at once and one back: refused", older)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watcher sync.WaitGroup
	var seen []string
	watcher.Go(func() { seen = d.SeeVersions(ctx) })
	start := time.Now()
	d.RunCapstan(t, upgrade(newer)...)
	took := time.Since(start)
	stop()
	watcher.Wait()
	d.NoteLine("upgraded to %s in %s", newer, took.Round(time.Second))
	for _, state := range seen {
		d.NoteLine("  pods: %s", state)
		servers, managers, _ := strings.Cut(state, ", ")
		if strings.Contains(managers, newer) && strings.Contains(servers, older) {
			t.Errorf("a controller manager is newer than an API server: %s", state)
		}
	}
	if len(seen) < 3 { // before, between and after
		t.Errorf("nobody saw the API server come first: %q", seen)
	}
	if is := d.Host.ReadPath(t, "{.status.version}", plane...); is != newer {
		t.Errorf("status.version is %s, want %s", is, newer)
	}
	if is := d.Hub.RunKubectl(t, "get", "--raw", "/version"); !strings.Contains(is, newer) {
		t.Errorf("the hub says that it is %s, want %s", is, newer)
	}
	d.IsRefused(t, "is an older minor version than "+newer, upgrade(older)...)
	d.NoteLine("back to %s: refused", older)
	d.SameAs(t, before)
	d.DeliversWork(t, "after the upgrade")
	d.NoteLine("the member was Available and got a change")
	d.MemberLeaves(t)
}

// moduleVersion is the version of Kubernetes that a module is built from.
func moduleVersion(t *testing.T, folder string) string {
	t.Helper()
	out, err := harness.RunProgram(t.Context(), filepath.Join(theLab.Root, folder), nil, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// minorAfter is a version some minor versions after another.
func minorAfter(t *testing.T, version string, minors int) string {
	t.Helper()
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatalf("version %q: %v", version, err)
	}
	return fmt.Sprintf("v%d.%d.0", major, minor+minors)
}
