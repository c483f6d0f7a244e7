// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
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

// Cluster is a cluster of the lab, seen by its administrator.
type Cluster struct {
	Name string
	Lab  *Lab
}

// Say prints a line of the story about the cluster.
func (c Cluster) Say(format string, args ...any) {
	c.Lab.Say("%s: %s", c.Name, fmt.Sprintf(format, args...))
}

// try runs kubectl and returns its output and what it said if it failed.
func (c Cluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	all := append([]string{"--kubeconfig", c.Lab.kubeconfig(), "--context", c.Name}, args...)
	cmd := exec.CommandContext(ctx, c.Lab.bin("kubectl"), all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, strings.NewReader(stdin)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl --context %s %s: %w: %s", c.Name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Kubectl runs kubectl, which has to succeed.
func (c Cluster) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Apply applies manifests as they are.
func (c Cluster) Apply(t *testing.T, manifests string) {
	t.Helper()
	if _, err := c.try(t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// ApplyExamples applies the examples of an operator as OLM shows them.
func (c Cluster) ApplyExamples(t *testing.T, version ...string) {
	t.Helper()
	var objects []json.RawMessage
	text := c.Get(t, `{.metadata.annotations.alm-examples}`, version...)
	if err := json.Unmarshal([]byte(text), &objects); err != nil || len(objects) == 0 {
		t.Fatalf("the examples of %q are %q: %v", version, text, err)
	}
	for _, object := range objects {
		c.Apply(t, string(object))
	}
}

// Get returns the value of a JSONPath of an object; empty if there is none.
func (c Cluster) Get(t *testing.T, path string, object ...string) string {
	t.Helper()
	value, err := c.Read(t, path, object...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Read is Get for those who wait, whom a busy API server does not stop.
func (c Cluster) Read(t *testing.T, path string, object ...string) (string, error) {
	return c.try(t.Context(), "", append([]string{"get", "--ignore-not-found", "-o", "jsonpath=" + path}, object...)...)
}

// ConditionText returns "STATUS Reason: message" of a condition.
func (c Cluster) ConditionText(t *testing.T, conditionType string, object ...string) string {
	t.Helper()
	return c.Get(t, conditionPath(conditionType), object...)
}

func conditionPath(conditionType string) string {
	item := fmt.Sprintf(`{.status.conditions[?(@.type==%q)]`, conditionType)
	return item + ".status} " + item + ".reason}: " + item + ".message}"
}

// WaitCondition waits until a condition begins with want.
func (c Cluster) WaitCondition(t *testing.T, conditionType, want string, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		got, err := c.Read(t, conditionPath(conditionType), object...)
		if err == nil && !strings.HasPrefix(got, want) {
			return fmt.Errorf("condition %s of %s on %s is %q, want %q", conditionType, strings.Join(object, " "), c.Name, got, want)
		}
		return err
	})
}

// WaitFor waits until the value of a JSONPath of an object is the wanted one.
func (c Cluster) WaitFor(t *testing.T, path, want string, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		got, err := c.Read(t, path, object...)
		if err == nil && got != want {
			return fmt.Errorf("%s of %s on %s is %q, want %q", path, strings.Join(object, " "), c.Name, got, want)
		}
		return err
	})
}

// WaitGone waits until kubectl get finds nothing.
func (c Cluster) WaitGone(t *testing.T, object ...string) {
	t.Helper()
	Eventually(t, func() error {
		found, err := c.try(t.Context(), "", append([]string{"get", "--ignore-not-found", "-o", "name"}, object...)...)
		if err == nil && found != "" {
			return fmt.Errorf("on %s there still is %q", c.Name, strings.Fields(found))
		}
		return err
	})
}

// NamesWith returns the sorted names of objects that contain one of the words.
func (c Cluster) NamesWith(t *testing.T, words []string, objects ...string) []string {
	t.Helper()
	var found []string
	for name := range strings.FieldsSeq(c.Kubectl(t, append([]string{"get", "-o", "name"}, objects...)...)) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) }) {
			found = append(found, name[strings.Index(name, "/")+1:])
		}
	}
	slices.Sort(found)
	return found
}

// DeploymentRevisions returns what Kubernetes counts for each Deployment of a namespace, by the names of cluster and Deployment.
func (c Cluster) DeploymentRevisions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	const item = `{range .items[*]}{.metadata.name} {.metadata.annotations.deployment\.kubernetes\.io/revision}{"\n"}{end}`
	for line := range strings.Lines(c.Get(t, item, "-n", namespace, "deployments")) {
		name, revision, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[c.Name+" "+name] = revision
	}
	return found
}

// OnlyPodsOf returns an error if a namespace has a pod without the image of a version, or one that was restarted.
func (c Cluster) OnlyPodsOf(t *testing.T, version, namespace string) error {
	t.Helper()
	pods, err := c.Read(t, `{range .items[*]}{.metadata.name} {.spec.containers[*].image} {.status.containerStatuses[*].restartCount}{"\n"}{end}`, "-n", namespace, "pods")
	if err != nil {
		return err
	}
	for line := range strings.Lines(pods) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.HasSuffix(fields[1], ":"+version) || fields[2] != "0" {
			return fmt.Errorf("a pod on %s is %q, want the image of %s and no restarts", c.Name, strings.TrimSpace(line), version)
		}
	}
	return nil
}

// OurNames returns the sorted names of objects of Capstan, or of OLM for it, without what OLM adds to those that it
// generates.
func (c Cluster) OurNames(t *testing.T, objects ...string) []string {
	t.Helper()
	suffix := regexp.MustCompile(`-[0-9A-Za-z]{30,}$`)
	var found []string
	for _, name := range c.NamesWith(t, []string{"open-cluster-management", "capstan", "klusterlet", "cluster-manager", "karmada.io"}, objects...) {
		found = append(found, suffix.ReplaceAllString(name, ""))
	}
	return found
}

// Eventually calls check until it returns nil, and fails the test with its
// last error if that takes longer than patience.
func Eventually(t *testing.T, check func() error) {
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

// DiagnoseFailure logs what a person would look at first, if the test failed.
func DiagnoseFailure(t *testing.T, clusters ...Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx := context.WithoutCancel(t.Context())
		for _, c := range clusters {
			for _, args := range [][]string{
				{"get", "pods", "-A", "-o", "wide"},
				{"-n", platformNamespace, "get", "catalogsources", "-o", "yaml"},
				{"-n", OperatorNamespace, "get", "subscriptions,installplans,clusterserviceversions,operatorconditions"},
				{"-n", OperatorNamespace, "get", "subscriptions,operatorconditions", "-o", "yaml"},
				{"-n", OperatorNamespace, "describe", "clusterserviceversions"},
				{"get", "events", "-A", "--sort-by=.lastTimestamp"},
				{"-n", platformNamespace, "logs", "deployment/catalog-operator", "--tail=60"},
				{"-n", platformNamespace, "logs", "deployment/olm-operator", "--tail=40"},
				{"-n", OperatorNamespace, "logs", "-l", "app.kubernetes.io/part-of=capstan", "--tail=40", "--prefix"},
				{"-n", OperatorNamespace, "logs", "-l", "app=klusterlet", "--tail=40", "--prefix"},
				{"-n", OperatorNamespace, "logs", "-l", "app=cluster-manager", "--tail=40", "--prefix"},
			} {
				out, err := c.try(ctx, "", args...)
				if err != nil {
					out += err.Error()
				}
				t.Logf("--- %s: kubectl %s\n%s", c.Name, strings.Join(args, " "), out)
			}
		}
	})
}
