// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// pressure is what a hub works under: works that change all the time, beside processes
// that keep the processors busy.
type pressure struct {
	works, busy int
	lasts       time.Duration
}

// busyProcesses is how many keep the processors busy. With a hundred on two processors the
// API server of the lab answers nobody for minutes, which no lease survives.
var busyProcesses = flag.Int("busy", 40, "how many processes of TestPressure keep the processors busy")

// TestPressure is the long form of the step "nothing restarts on a starved machine" of
// TestHubAndSpoke.
func TestPressure(t *testing.T) {
	hub, member := theLab.Cluster(hubName), theLab.Cluster(memberName)
	harness.DiagnoseFailure(t, hub, member)
	s := &story{hub: hub, member: member, clusterName: memberName, hubKubeconfig: filepath.Join(t.TempDir(), "hub-kubeconfig")}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"deploy the hub", s.deployHub},
		{"deploy the spoke in Default mode", s.deploySpoke("Default")},
		{"approve and accept by kubectl", s.approveAndAccept},
		{"deliver a workload", s.deliver},
		{"nothing restarts", s.survives(pressure{works: 100, busy: *busyProcesses, lasts: 10 * time.Minute})},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("it ends at %q", step.name)
		}
	}
}

// survives fails the test if a program of the hub restarts under pressure, if something is
// refused because a webhook does not answer, or if the member does not get in the end what
// the hub declares. It prints how much slower that is than without pressure.
func (s *story) survives(under pressure) func(*testing.T) {
	return func(t *testing.T) {
		before := s.programs(t, s.hub, operatorNamespace, hubNamespace)
		s.declare(t, under.works, "idle")
		idle := s.arrives(t, under.works, "idle")

		stop := keepBusy(t, under.busy)
		defer stop()
		rounds, last := 0, ""
		for begin := time.Now(); time.Since(begin) < under.lasts || rounds == 0; rounds++ {
			last = fmt.Sprintf("round-%d", rounds)
			s.declare(t, under.works, last)
		}
		busy := s.arrives(t, under.works, last)
		s.isAvailable(t)
		t.Logf("beside %d busy processes, %d works changed %d times in %s; the last change had arrived %s after it was declared, and one without pressure after %s: %.1f times as long",
			under.busy, under.works, rounds, under.lasts, busy.Round(time.Millisecond), idle.Round(time.Millisecond), busy.Seconds()/idle.Seconds())
		stop()
		if now := s.programs(t, s.hub, operatorNamespace, hubNamespace); now != before {
			t.Errorf("the programs of the hub, with their restarts, were %s and are %s", before, now)
		}
		s.hub.RunKubectl(t, "-n", s.clusterName, "delete", "manifestworks", "-l", "pressure=true", "--timeout", harness.Patience.String())
	}
}

// programs returns names and restarts of the pods of namespaces.
func (s *story) programs(t *testing.T, of harness.Cluster, namespaces ...string) string {
	t.Helper()
	var all strings.Builder
	for _, namespace := range namespaces {
		all.WriteString(of.ReadPath(t, "{range .items[*]}{.metadata.name}={.status.containerStatuses[*].restartCount} {end}", "-n", namespace, "pods"))
	}
	return all.String()
}

// keepBusy starts processes that compute until the returned function is called.
func keepBusy(t *testing.T, processes int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	for range processes {
		busy := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			stop()
			t.Fatal(err)
		}
		running.Go(func() { _ = busy.Wait() }) // it ends by being killed
	}
	return stop
}

// pressureWork is a work with one object.
const pressureWork = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: pressure-%[2]d, namespace: %[1]s, labels: {pressure: "true"}}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: pressure-%[2]d, namespace: hello, labels: {pressure: "true"}}, data: {text: %[3]s}}
---`

// declare writes the text into all works. An API server that is slow is asked again; a
// webhook that does not answer, and refuses so, fails the test.
func (s *story) declare(t *testing.T, works int, text string) {
	t.Helper()
	var all strings.Builder
	for i := range works {
		fmt.Fprintf(&all, pressureWork, s.clusterName, i, text)
	}
	harness.Eventually(t, func() error {
		_, err := s.hub.TryKubectl(t.Context(), all.String(), "apply", "-f", "-")
		if err != nil && strings.Contains(err.Error(), "webhook") {
			t.Fatalf("a work was refused under pressure: %v", err)
		}
		return err
	})
}

// arrives waits until the member has the text of all works and the hub knows that, and
// returns how long it took.
func (s *story) arrives(t *testing.T, works int, text string) time.Duration {
	t.Helper()
	begin := time.Now()
	count := func(of harness.Cluster, path string, objects ...string) (int, error) {
		out, err := of.TryKubectl(t.Context(), "", append([]string{"get", "-l", "pressure=true", "-o", "jsonpath=" + path}, objects...)...)
		n := 0
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == fields[1] {
				n++
			}
		}
		return n, err
	}
	harness.Eventually(t, func() error {
		has, err := count(s.member, `{range .items[*]}{.data.text} `+text+`{"\n"}{end}`, "-n", "hello", "configmaps")
		known, errHub := count(s.hub, `{range .items[*]}{.metadata.generation} {.status.conditions[?(@.type=="Applied")].observedGeneration}{"\n"}{end}`,
			"-n", s.clusterName, "manifestworks")
		if err = errors.Join(err, errHub); err == nil && (has != works || known != works) {
			err = fmt.Errorf("of %d works, the member has %d as they were declared last, and the hub knows of %d", works, has, known)
		}
		return err
	})
	return time.Since(begin)
}
