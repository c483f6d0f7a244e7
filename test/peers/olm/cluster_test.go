// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long the test waits for something that normally takes
// seconds. It only decides how long a failure takes.
const patience = 10 * time.Minute

// pause is how long it waits before it looks again: the longer the more often it has
// looked. Each look starts a kubectl, which takes a fifth of a second of a processor, and
// several labs share few of them.
func pause(looks int) time.Duration {
	return min(250*time.Millisecond<<min(looks/2, 4), 2*time.Second)
}

// cluster is a cluster of the lab, seen by its administrator.
type cluster struct{ name string }

// try runs kubectl and returns its output and what it said if it failed.
func (c cluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	all := append([]string{"--kubeconfig", theLab.kubeconfig(), "--context", c.name}, args...)
	cmd := exec.CommandContext(ctx, theLab.bin("kubectl"), all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, strings.NewReader(stdin)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl --context %s %s: %w: %s", c.name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// kubectl runs kubectl, which has to succeed.
func (c cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies manifests as they are.
func (c cluster) apply(t *testing.T, manifests string) {
	t.Helper()
	if _, err := c.try(t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a JSONPath of an object; empty if there is none.
func (c cluster) get(t *testing.T, path string, object ...string) string {
	t.Helper()
	value, err := c.read(t, path, object...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// read is get for those who wait, whom a busy API server does not stop.
func (c cluster) read(t *testing.T, path string, object ...string) (string, error) {
	return c.try(t.Context(), "", append([]string{"get", "--ignore-not-found", "-o", "jsonpath=" + path}, object...)...)
}

// condition returns "STATUS Reason: message" of a condition.
func (c cluster) condition(t *testing.T, conditionType string, object ...string) string {
	t.Helper()
	return c.get(t, conditionPath(conditionType), object...)
}

func conditionPath(conditionType string) string {
	item := fmt.Sprintf(`{.status.conditions[?(@.type==%q)]`, conditionType)
	return item + ".status} " + item + ".reason}: " + item + ".message}"
}

// waitCondition waits until a condition begins with want.
func (c cluster) waitCondition(t *testing.T, conditionType, want string, object ...string) {
	t.Helper()
	eventually(t, func() error {
		got, err := c.read(t, conditionPath(conditionType), object...)
		if err == nil && !strings.HasPrefix(got, want) {
			return fmt.Errorf("condition %s of %s on %s is %q, want %q", conditionType, strings.Join(object, " "), c.name, got, want)
		}
		return err
	})
}

// waitFor waits until the value of a JSONPath of an object is the wanted one.
func (c cluster) waitFor(t *testing.T, path, want string, object ...string) {
	t.Helper()
	eventually(t, func() error {
		got, err := c.read(t, path, object...)
		if err == nil && got != want {
			return fmt.Errorf("%s of %s on %s is %q, want %q", path, strings.Join(object, " "), c.name, got, want)
		}
		return err
	})
}

// waitGone waits until kubectl get finds nothing.
func (c cluster) waitGone(t *testing.T, object ...string) {
	t.Helper()
	eventually(t, func() error {
		found, err := c.try(t.Context(), "", append([]string{"get", "--ignore-not-found", "-o", "name"}, object...)...)
		if err == nil && found != "" {
			return fmt.Errorf("on %s there still is %q", c.name, strings.Fields(found))
		}
		return err
	})
}

// names returns the sorted names of objects that contain one of the words.
func (c cluster) names(t *testing.T, words []string, objects ...string) []string {
	t.Helper()
	var found []string
	for name := range strings.FieldsSeq(c.kubectl(t, append([]string{"get", "-o", "name"}, objects...)...)) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) }) {
			found = append(found, name[strings.Index(name, "/")+1:])
		}
	}
	slices.Sort(found)
	return found
}

// eventually calls check until it returns nil, and fails the test with its
// last error if that takes longer than patience.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for looks := 0; ; looks++ {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause(looks)):
		case <-deadline.C:
			t.Fatalf("after %s: %v", patience, err)
		case <-t.Context().Done():
			t.Fatalf("cut off: %v", err)
		}
	}
}

// diagnose logs what a person would look at first, if the test failed.
func diagnose(t *testing.T, clusters ...cluster) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx := context.WithoutCancel(t.Context())
		for _, c := range clusters {
			for _, args := range [][]string{
				{"get", "pods", "-A", "-o", "wide"},
				{"-n", olmNamespace, "get", "catalogsources", "-o", "yaml"},
				{"-n", operatorNamespace, "get", "subscriptions,installplans,clusterserviceversions,operatorconditions"},
				{"-n", operatorNamespace, "get", "subscriptions,operatorconditions", "-o", "yaml"},
				{"-n", operatorNamespace, "describe", "clusterserviceversions"},
				{"get", "events", "-A", "--sort-by=.lastTimestamp"},
				{"-n", olmNamespace, "logs", "deployment/catalog-operator", "--tail=60"},
				{"-n", olmNamespace, "logs", "deployment/olm-operator", "--tail=40"},
				{"-n", operatorNamespace, "logs", "-l", "app.kubernetes.io/part-of=capstan", "--tail=40", "--prefix"},
				{"-n", operatorNamespace, "logs", "-l", "app=klusterlet", "--tail=40", "--prefix"},
				{"-n", operatorNamespace, "logs", "-l", "app=cluster-manager", "--tail=40", "--prefix"},
			} {
				out, err := c.try(ctx, "", args...)
				if err != nil {
					out += err.Error()
				}
				t.Logf("--- %s: kubectl %s\n%s", c.name, strings.Join(args, " "), out)
			}
		}
	})
}
