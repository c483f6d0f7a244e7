// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// quietLinesMax is how many lines a component may log while nothing happens but
// that certificates are renewed, of which the lab's last four minutes.
const quietLinesMax = 6

// tolerated are the errors that components of a healthy installation may log:
// parts of lines, with the reason.
func tolerated() map[string]string { return map[string]string{} }

// entry is what a line of a log says.
type entry struct {
	Level string `json:"level"`
}

// isError tells whether a line is that of an error, or of a panic, which is no
// JSON.
func isError(line string) bool {
	var e entry
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return strings.TrimSpace(line) != ""
	}
	return e.Level != "debug" && e.Level != "info"
}

// errorsOf returns the lines with errors that are not tolerated.
func errorsOf(log string) []string {
	var found []string
	for line := range strings.Lines(log) {
		known := slices.ContainsFunc(slices.Collect(maps.Keys(tolerated())), func(part string) bool { return strings.Contains(line, part) })
		if isError(line) && !known {
			found = append(found, line)
		}
	}
	return found
}

// pod is a pod of Capstan.
type pod struct {
	cluster         cluster
	namespace, name string
}

func (p pod) String() string { return p.cluster.name + "/" + p.namespace + "/" + p.name }

// pods returns those that the clusters have now.
func (s *story) pods(t *testing.T) []pod {
	t.Helper()
	var found []pod
	for _, c := range []cluster{s.hub, s.member} {
		for _, namespace := range []string{operatorNamespace, hubNamespace, agentNamespace} {
			for name := range strings.FieldsSeq(c.kubectl(t, "-n", namespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")) {
				found = append(found, pod{c, namespace, name})
			}
		}
	}
	return found
}

// noErrors fails the test if a component has logged an error since it started.
func (s *story) noErrors(t *testing.T) {
	pods := s.pods(t)
	if len(pods) == 0 {
		t.Fatal("there is no pod whose log could be read")
	}
	for _, p := range pods {
		log := p.cluster.kubectl(t, "-n", p.namespace, "logs", p.name, "--all-containers")
		for _, line := range errorsOf(log) {
			t.Errorf("%s logged an error although all is well: %s", p, line)
		}
		t.Logf("%s: %d lines", p, strings.Count(log, "\n"))
	}
}

// quietSince fails the test if a component tells much of a time in which nothing
// happens.
func (s *story) quietSince(t *testing.T, begin time.Time) {
	t.Helper()
	for _, p := range s.pods(t) {
		log := p.cluster.kubectl(t, "-n", p.namespace, "logs", p.name, "--all-containers", "--since-time", begin.UTC().Format(time.RFC3339))
		if lines := strings.Count(log+"\n", "\n"); log != "" && lines > quietLinesMax {
			t.Errorf("%s logged %d lines in %s in which nothing happened, want at most %d:\n%s", p, lines, time.Since(begin).Round(time.Second), quietLinesMax, log)
		}
	}
}

// followed are the logs of pods that are about to go.
type followed struct {
	stop  context.CancelFunc
	ended sync.WaitGroup
	mutex sync.Mutex
	logs  map[string]string
}

// follow reads what the pods log from now on, until they end.
func (s *story) follow(t *testing.T) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &followed{stop: cancel, logs: map[string]string{}}
	for _, p := range s.pods(t) {
		reader := exec.CommandContext(ctx, theLab.bin("kubectl"), "--kubeconfig", p.cluster.kubeconfig, "--context", p.cluster.name,
			"-n", p.namespace, "logs", p.name, "--all-containers", "--follow", "--since=1s")
		f.ended.Go(func() {
			// It ends with the pod, or when nobody waits for more.
			out, _ := reader.Output()
			f.mutex.Lock()
			defer f.mutex.Unlock()
			f.logs[p.String()] = string(out)
		})
	}
	return f
}

// leaveWithoutErrors removes the member, while its components and those of the
// hub must not log an error: to the last line.
func (s *story) leaveWithoutErrors(t *testing.T) {
	f := s.follow(t)
	defer f.stop()
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"delete the ManagedCluster", s.deleteManagedCluster},
		{"delete the Klusterlet", s.deleteKlusterlet},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
	f.stop()
	f.ended.Wait()
	for _, name := range slices.Sorted(maps.Keys(f.logs)) {
		for _, line := range errorsOf(f.logs[name]) {
			t.Errorf("%s logged an error while the cluster left: %s", name, line)
		}
	}
}

func TestErrorsAreFoundInLogs(t *testing.T) {
	log := `{"level":"info","msg":"fine"}
{"level":"debug","msg":"trying again"}
{"level":"error","msg":"Reconciler error","error":"no"}
panic: nil map

{"level":"dpanic","msg":"odd number of arguments"}
`
	if got := errorsOf(log); len(got) != 3 {
		t.Errorf("got %d lines, want the error, the panic and the odd arguments: %s", len(got), fmt.Sprint(got))
	}
}
