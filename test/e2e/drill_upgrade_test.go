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

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// drillUpgrade brings a hub to the next minor version of Kubernetes, and tries to
// bring it further and back.
func drillUpgrade(t *testing.T, d *drill) {
	d.loadImages(t, "older.tar")
	older, newer := moduleVersion(t, "test/lab/older"), moduleVersion(t, "test/lab")
	plane := []string{"-n", drillPlace, "controlplane/" + drillHub}
	d.makeHub(t, "--kubernetes-version", older)
	d.join(t)
	before := d.identities(t)
	upgrade := func(to string) []string { return d.onHost("upgrade", "--kubernetes-version", to) }

	d.refuses(t, "is more than one minor version after "+older, upgrade(minorAfter(t, newer, 1))...)
	d.refuses(t, "is an older minor version than "+older, upgrade(minorAfter(t, older, -1))...)
	if spec := d.host.jsonpath(t, "{.spec.version}", plane...); spec != older {
		t.Errorf("an upgrade that was refused has set spec.version to %s", spec)
	}
	d.say("from %s, two minor versions at once and one back: refused", older)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watcher sync.WaitGroup
	var seen []string
	watcher.Go(func() { seen = d.versions(ctx) })
	start := time.Now()
	d.capstan(t, upgrade(newer)...)
	took := time.Since(start)
	stop()
	watcher.Wait()
	d.say("upgraded to %s in %s", newer, took.Round(time.Second))
	for _, state := range seen {
		d.say("  pods: %s", state)
		servers, managers, _ := strings.Cut(state, ", ")
		if strings.Contains(managers, newer) && strings.Contains(servers, older) {
			t.Errorf("a controller manager is newer than an API server: %s", state)
		}
	}
	if len(seen) < 3 { // before, between and after
		t.Errorf("nobody saw the API server come first: %q", seen)
	}
	if is := d.host.jsonpath(t, "{.status.version}", plane...); is != newer {
		t.Errorf("status.version is %s, want %s", is, newer)
	}
	if is := d.hub.kubectl(t, "get", "--raw", "/version"); !strings.Contains(is, newer) {
		t.Errorf("the hub says that it is %s, want %s", is, newer)
	}
	d.refuses(t, "is an older minor version than "+newer, upgrade(older)...)
	d.say("back to %s: refused", older)
	d.sameAs(t, before)
	d.delivers(t, "after the upgrade")
	d.say("the member was Available and got a change")
	d.leave(t)
}

// versions returns the versions of the pods of API server and controller manager
// as they change, until the context ends.
func (d *drill) versions(ctx context.Context) (seen []string) {
	for ; ctx.Err() == nil; time.Sleep(pause(0)) {
		state := make([]string, 0, 2)
		for _, component := range []string{"apiserver", "controller-manager"} {
			out, err := d.host.try(ctx, "", "-n", drillPlace, "get", "pods", "-l", fleetv1alpha1.LabelControlPlaneComponent+"="+component,
				"--sort-by={.metadata.creationTimestamp}", "-o", "jsonpath={.items[*].spec.containers[0].image}")
			if err != nil {
				break
			}
			var tags []string
			for image := range strings.FieldsSeq(out) {
				tags = append(tags, image[strings.LastIndex(image, ":")+1:])
			}
			state = append(state, component+" "+strings.Join(tags, " "))
		}
		text := strings.Join(state, ", ")
		if len(state) == 2 && (len(seen) == 0 || seen[len(seen)-1] != text) {
			seen = append(seen, text)
		}
	}
	return seen
}

// moduleVersion is the version of Kubernetes that a module is built from.
func moduleVersion(t *testing.T, folder string) string {
	t.Helper()
	out, err := output(t.Context(), filepath.Join(theLab.root, folder), nil, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
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
