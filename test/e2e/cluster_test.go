// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for something that normally takes
// seconds. It only decides how long a failure takes.
const patience = 3 * time.Minute

// pause is how long it waits before it looks again: the longer the more often it has
// looked. Each look starts a kubectl, which takes a fifth of a second of a processor, and
// several labs share few of them.
func pause(looks int) time.Duration {
	return min(250*time.Millisecond<<min(looks/2, 4), 2*time.Second)
}

// cluster is a cluster of the lab, seen by its administrator unless
// kubeconfig is another identity's.
type cluster struct {
	name       string
	kubeconfig string
}

func inLab(name string) cluster { return cluster{name: name, kubeconfig: theLab.kubeconfig()} }

// as returns the cluster as seen with another kubeconfig.
func (c cluster) as(kubeconfig string) cluster { return cluster{name: "", kubeconfig: kubeconfig} }

// try runs kubectl and returns its output and what it said if it failed.
func (c cluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	all := []string{"--kubeconfig", c.kubeconfig}
	if c.name != "" {
		all = append(all, "--context", c.name)
	}
	cmd := exec.CommandContext(ctx, theLab.bin("kubectl"), append(all, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl --context %s %s: %w: %s", c.name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// kubectl runs kubectl, which has to succeed.
func (c cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// apply applies the YAML text, which has to succeed.
func (c cluster) apply(t *testing.T, yaml string) {
	t.Helper()
	if _, err := c.try(t.Context(), yaml, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// refused runs kubectl, which has to fail with a message that has all the
// given parts.
func (c cluster) refused(t *testing.T, stdin string, want []string, args ...string) {
	t.Helper()
	out, err := c.try(t.Context(), stdin, args...)
	if err == nil {
		t.Errorf("kubectl %s succeeded, want it refused; it printed %s", strings.Join(args, " "), out)
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("kubectl %s was refused, but the message lacks %q: %v", strings.Join(args, " "), part, err)
		}
	}
}

// jsonpath returns the value of a JSONPath of an object; empty if it is not there.
func (c cluster) jsonpath(t *testing.T, path string, object ...string) string {
	t.Helper()
	args := append([]string{"get", "--ignore-not-found", "-o", "jsonpath=" + path}, object...)
	return c.kubectl(t, args...)
}

// condition returns "STATUS Reason: message" of a condition.
func (c cluster) condition(t *testing.T, conditionType string, object ...string) string {
	t.Helper()
	item := fmt.Sprintf(`{.status.conditions[?(@.type==%q)]`, conditionType)
	return c.jsonpath(t, item+".status} "+item+".reason}: "+item+".message}", object...)
}

// waitCondition waits until a condition begins with want, for example "True"
// or "False HubClusterAdminDenied".
func (c cluster) waitCondition(t *testing.T, conditionType, want string, object ...string) {
	t.Helper()
	eventually(t, func() error {
		if got := c.condition(t, conditionType, object...); !strings.HasPrefix(got, want) {
			return fmt.Errorf("condition %s of %s on %s is %q, want %q", conditionType, strings.Join(object, " "), c.name, got, want)
		}
		return nil
	})
}

// waitGone waits until kubectl get finds nothing.
func (c cluster) waitGone(t *testing.T, object ...string) {
	t.Helper()
	eventually(t, func() error {
		args := append([]string{"get", "--ignore-not-found", "-o", "name"}, object...)
		out, err := c.try(t.Context(), "", args...)
		if err != nil && strings.Contains(err.Error(), "the server doesn't have a resource type") {
			return nil
		}
		if err != nil {
			return err
		}
		if found := strings.Fields(out); len(found) > 0 {
			return fmt.Errorf("on %s there still is %q", c.name, found)
		}
		return nil
	})
}

// waitThere waits until kubectl get finds the object.
func (c cluster) waitThere(t *testing.T, object ...string) {
	t.Helper()
	eventually(t, func() error {
		_, err := c.try(t.Context(), "", append([]string{"get", "-o", "name"}, object...)...)
		return err
	})
}

// leftovers returns an error that names what the cluster has of Capstan.
func (c cluster) leftovers(ctx context.Context) error {
	var left []string
	for _, kind := range []string{"namespaces", "clusterroles", "clusterrolebindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		out, err := c.try(ctx, "", "get", kind, "-o", "name")
		if err != nil {
			return err
		}
		for name := range strings.FieldsSeq(out) {
			if ours.MatchString(name) {
				left = append(left, name)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("on %s there still is %q", c.name, left)
	}
	return nil
}

// ours matches the names of what an installation makes for all of a cluster.
var ours = regexp.MustCompile(`open-cluster-management|klusterlet|cluster-manager|capstan`)

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

// makeTarget runs a make target of the repository as a user would.
func makeTarget(t *testing.T, target string, variables map[string]string) string {
	t.Helper()
	args := []string{"--no-print-directory", target, "KUBECTL=" + theLab.bin("kubectl"), "IMAGE_NAME=" + theLab.image}
	for name, value := range variables {
		args = append(args, name+"="+value)
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = theLab.root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+theLab.kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
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
				{"get", "managedclusters,klusterlets,clustermanagers,csr", "-o", "wide"},
				{"get", "pods", "-A", "-o", "wide"},
				{"describe", "manifestworks", "-A"},
				{"get", "events", "-A", "--sort-by=.lastTimestamp"},
				{"describe", "klusterlets,clustermanagers,managedclusters"},
				{"-n", "open-cluster-management", "logs", "-l", "app=cluster-manager", "--tail=40"},
				{"-n", "open-cluster-management", "logs", "-l", "app=klusterlet", "--tail=40"},
				{"-n", "open-cluster-management-hub", "logs", "-l", "open-cluster-management.io/created-by-clustermanager", "--tail=40", "--prefix"},
				{"-n", "hostedhub", "logs", "-l", "open-cluster-management.io/created-by-clustermanager", "--tail=40", "--prefix"},
				{"-n", "open-cluster-management-agent", "logs", "-l", "open-cluster-management.io/created-by-klusterlet", "--tail=60", "--prefix"},
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
