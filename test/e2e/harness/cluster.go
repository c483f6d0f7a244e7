// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness drives the clusters of a lab: kubectl in each, capstan for a dedicated hub
// that is drilled, and requests all the time.
package harness

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

// RunKubectlWithInput runs kubectl with text on standard input; it has to succeed.
func (c Cluster) RunKubectlWithInput(t testing.TB, stdin string, args ...string) {
	t.Helper()
	if _, err := c.TryKubectl(t.Context(), stdin, args...); err != nil {
		t.Fatal(err)
	}
}

// Patience is how long a test waits for something that normally takes
// seconds. It only decides how long a failure takes.
const Patience = 3 * time.Minute

// Pause is how long it waits before it looks again: the longer the more often it has
// looked. Each look starts a kubectl, which takes a fifth of a second of a processor, and
// several labs share few of them.
func Pause(looks int) time.Duration {
	return min(250*time.Millisecond<<min(looks/2, 4), 2*time.Second)
}

// Cluster is a cluster of the lab, seen by its administrator unless
// kubeconfig is another identity's.
type Cluster struct {
	lab        *Lab
	Name       string
	Kubeconfig string
}

// Cluster returns a cluster of the lab.
func (l *Lab) Cluster(name string) Cluster { return l.ClusterIn(name, l.KubeconfigPath()) }

// ClusterIn returns the cluster of a context of a kubeconfig.
func (l *Lab) ClusterIn(name, kubeconfig string) Cluster {
	return Cluster{lab: l, Name: name, Kubeconfig: kubeconfig}
}

// SeenBy returns the cluster as seen with another kubeconfig.
func (c Cluster) SeenBy(kubeconfig string) Cluster { return c.lab.ClusterIn("", kubeconfig) }

// TryKubectl runs kubectl and returns its output and what it said if it failed.
func (c Cluster) TryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	all := []string{"--kubeconfig", c.Kubeconfig}
	if c.Name != "" {
		all = append(all, "--context", c.Name)
	}
	cmd := exec.CommandContext(ctx, c.lab.ToolPath("kubectl"), append(all, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl --context %s %s: %w: %s", c.Name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// RunKubectl runs kubectl, which has to succeed.
func (c Cluster) RunKubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// ApplyText applies the YAML text, which has to succeed.
func (c Cluster) ApplyText(t testing.TB, yaml string) {
	t.Helper()
	if _, err := c.TryKubectl(t.Context(), yaml, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// IsRefused runs kubectl, which has to fail with a message that has all the
// given parts.
func (c Cluster) IsRefused(t testing.TB, stdin string, want []string, args ...string) {
	t.Helper()
	out, err := c.TryKubectl(t.Context(), stdin, args...)
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

// ReadPath returns the value of a JSONPath of an object; empty if it is not there.
func (c Cluster) ReadPath(t testing.TB, path string, object ...string) string {
	t.Helper()
	args := append([]string{"get", "--ignore-not-found", "-o", "jsonpath=" + path}, object...)
	return c.RunKubectl(t, args...)
}

// ReadCondition returns "STATUS Reason: message" of a condition.
func (c Cluster) ReadCondition(t testing.TB, conditionType string, object ...string) string {
	t.Helper()
	item := fmt.Sprintf(`{.status.conditions[?(@.type==%q)]`, conditionType)
	return c.ReadPath(t, item+".status} "+item+".reason}: "+item+".message}", object...)
}

// AwaitCondition waits until a condition begins with want, for example "True"
// or "False HubClusterAdminDenied".
func (c Cluster) AwaitCondition(t testing.TB, conditionType, want string, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		if got := c.ReadCondition(t, conditionType, object...); !strings.HasPrefix(got, want) {
			return fmt.Errorf("condition %s of %s on %s is %q, want %q", conditionType, strings.Join(object, " "), c.Name, got, want)
		}
		return nil
	})
}

// AwaitGone waits until kubectl get finds nothing.
func (c Cluster) AwaitGone(t testing.TB, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		args := append([]string{"get", "--ignore-not-found", "-o", "name"}, object...)
		out, err := c.TryKubectl(t.Context(), "", args...)
		if err != nil {
			return unlessUnserved(err)
		}
		if found := strings.Fields(out); len(found) > 0 {
			return fmt.Errorf("on %s there still is %q", c.Name, found)
		}
		return nil
	})
}

// unlessUnserved returns the error of kubectl, unless it is that there is no such kind.
func unlessUnserved(err error) error {
	if strings.Contains(err.Error(), "the server doesn't have a resource type") {
		return nil
	}
	return err
}

// AwaitThere waits until kubectl get finds the object.
func (c Cluster) AwaitThere(t testing.TB, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		_, err := c.TryKubectl(t.Context(), "", append([]string{"get", "-o", "name"}, object...)...)
		return err
	})
}

// FindLeftovers returns an error that names what the cluster has of Capstan.
func (c Cluster) FindLeftovers(ctx context.Context) error {
	var left []string
	for _, kind := range []string{"namespaces", "clusterroles", "clusterrolebindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		out, err := c.TryKubectl(ctx, "", "get", kind, "-o", "name")
		if err != nil {
			return err
		}
		for name := range strings.FieldsSeq(out) {
			if Ours.MatchString(name) {
				left = append(left, name)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("on %s there still is %q", c.Name, left)
	}
	return nil
}

// Ours matches the names of what an installation makes for all of a cluster.
var Ours = regexp.MustCompile(`open-cluster-management|klusterlet|cluster-manager|capstan`)

// Eventually calls check until it returns nil, and fails the test with its
// last error if that takes longer than patience.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for looks := 0; ; looks++ {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(Pause(looks)):
		case <-deadline.C:
			t.Fatalf("after %s: %v", Patience, err)
		case <-t.Context().Done():
			t.Fatalf("cut off: %v", err)
		}
	}
}

// MakeTarget runs a make target of the repository as a user would.
func (l *Lab) MakeTarget(t testing.TB, target string, variables map[string]string) string {
	t.Helper()
	args := []string{"--no-print-directory", target, "KUBECTL=" + l.ToolPath("kubectl"), "IMAGE_NAME=" + l.Image}
	for name, value := range variables {
		args = append(args, name+"="+value)
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = l.Root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// DiagnoseFailure logs what a person would look at first, if the test failed.
func DiagnoseFailure(t testing.TB, clusters ...Cluster) {
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
				out, err := c.TryKubectl(ctx, "", args...)
				if err != nil {
					out += err.Error()
				}
				t.Logf("--- %s: kubectl %s\n%s", c.Name, strings.Join(args, " "), out)
			}
		}
	})
}
