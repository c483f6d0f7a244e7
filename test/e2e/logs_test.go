// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// quietLinesMax is how many lines a component may log while nothing happens but
// that certificates are renewed, of which the lab's last four minutes.
const quietLinesMax = 6

// tolerated are the errors that components of a healthy installation may log:
// parts of lines, with the reason.
func tolerated() map[string]string { return map[string]string{} }

// entry is what a line of a log says.
type entry struct {
	Level string    `json:"level"`
	Time  time.Time `json:"ts"`
}

// isError reports whether a line is that of an error, or of a panic, which is no
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

// since returns the lines of a log from a time on. What is no JSON, and has no time, is
// of the time of the line before it.
func since(log string, begin time.Time) string {
	var later strings.Builder
	is := false
	for line := range strings.Lines(log) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err == nil && !e.Time.IsZero() {
			is = !e.Time.Before(begin)
		}
		if is {
			later.WriteString(line)
		}
	}
	return later.String()
}

// pod is a pod of Capstan.
type pod struct {
	cluster         harness.Cluster
	namespace, name string
}

func (p pod) String() string { return p.cluster.Name + "/" + p.namespace + "/" + p.name }

// present are the pods of a list that do not end.
const present = "go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}"

// pods returns those that the clusters have now.
func (s *story) pods(t *testing.T) []pod {
	t.Helper()
	var found []pod
	for _, c := range []harness.Cluster{s.hub, s.member} {
		for _, namespace := range []string{operatorNamespace, hubNamespace, agentNamespace} {
			for name := range strings.FieldsSeq(c.RunKubectl(t, "-n", namespace, "get", "pods", "-o", present)) {
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
		log := p.cluster.RunKubectl(t, "-n", p.namespace, "logs", p.name, "--all-containers")
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
		log := p.cluster.RunKubectl(t, "-n", p.namespace, "logs", p.name, "--all-containers", "--since-time", begin.UTC().Format(time.RFC3339))
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
	logs  map[pod]string
	// failed are the errors of what was not read to its end.
	failed []error
}

// follow reads all that the pods have logged, and what they log from now on, until they
// end.
func (s *story) follow(t *testing.T) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &followed{stop: cancel, logs: map[pod]string{}}
	for _, p := range s.pods(t) {
		f.ended.Go(func() {
			// It ends with the pod, or when nobody waits for more.
			log, err := p.cluster.TryKubectl(ctx, "", "-n", p.namespace, "logs", p.name, "--all-containers", "--follow")
			f.mutex.Lock()
			defer f.mutex.Unlock()
			f.logs[p] = log
			if err != nil && ctx.Err() == nil {
				f.failed = append(f.failed, fmt.Errorf("the log of %s was not read to its end: %w", p, err))
			}
		})
	}
	return f
}

// unread returns what is wrong with what was read, and has to be of these namespaces of
// a cluster. Every program logs something when it starts.
func (f *followed) unread(c harness.Cluster, namespaces ...string) []error {
	problems := f.failed
	for _, namespace := range namespaces {
		read := false
		for p, log := range f.logs {
			read = read || p.cluster == c && p.namespace == namespace && strings.TrimSpace(log) != ""
		}
		if !read {
			problems = append(problems, fmt.Errorf("no log of a pod in %s/%s was read", c.Name, namespace))
		}
	}
	return problems
}

// leaveWithoutErrors removes the member, while its components and those of the
// hub must not log an error: to the last line.
func (s *story) leaveWithoutErrors(t *testing.T) {
	begin := time.Now()
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
	for _, problem := range f.unread(s.member, agentNamespace, operatorNamespace) {
		t.Error(problem)
	}
	for p, log := range f.logs {
		late := since(log, begin)
		for _, line := range errorsOf(late) {
			t.Errorf("%s logged an error while the cluster left: %s", p, line)
		}
		t.Logf("%s: %d lines, %d of them while the cluster left", p, strings.Count(log, "\n"), strings.Count(late, "\n"))
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

func TestLogsAreReadToTheirEnd(t *testing.T) {
	member := harness.Cluster{Name: "member"}
	agent, operator := pod{member, agentNamespace, "agent-1"}, pod{member, operatorNamespace, "klusterlet-1"}
	broken := errors.New("the connection broke")
	for name, test := range map[string]struct {
		reason string
		logs   map[pod]string
		failed []error
		want   int
	}{
		"Read":      {"both were read", map[pod]string{agent: "{}\n", operator: "{}\n"}, nil, 0},
		"Empty":     {"that of the agent is empty", map[pod]string{agent: "\n", operator: "{}\n"}, nil, 1},
		"Missing":   {"nobody has followed the operator", map[pod]string{agent: "{}\n"}, nil, 1},
		"Elsewhere": {"the hub's are not the member's", map[pod]string{{harness.Cluster{Name: "hub"}, operatorNamespace, "a"}: "{}\n"}, nil, 2},
		"Broken":    {"not to its end", map[pod]string{agent: "{}\n", operator: "{}\n"}, []error{broken}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := &followed{logs: test.logs, failed: test.failed}
			if got := f.unread(member, agentNamespace, operatorNamespace); len(got) != test.want {
				t.Errorf("%s: got %v, want %d problems", test.reason, got, test.want)
			}
		})
	}
}

func TestLinesSinceATime(t *testing.T) {
	log := `{"ts":"2026-01-01T00:00:01.5Z","level":"error","msg":"before"}
panic: before
{"ts":"2026-01-01T00:00:02Z","level":"info","msg":"from now on"}
panic: after
`
	want := `{"ts":"2026-01-01T00:00:02Z","level":"info","msg":"from now on"}
panic: after
`
	if got := since(log, time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)); got != want {
		t.Errorf("got the lines %s, want %s", got, want)
	}
}
