// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a Prometheus that scrapes the clusters of a lab, and what is broken there.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

const (
	// Patience is how long something may take that takes seconds normally. It only
	// decides how long a failure takes.
	Patience = 10 * time.Minute
	pause    = 2 * time.Second

	Hub, Member, Pushed = "hub", "member1", "push1"

	metricsPortDefault = "8080"
	apiServerPort      = "8443" // it serves its metrics beside its API
)

// Lab has a hub, a Pull member, and a Push member without a node.
type Lab struct {
	Dir, kubeconfig, image string
}

// NewLab starts the clusters of a lab with what is measured.
func NewLab(t testing.TB) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("real clusters need root: run `sudo make test-observability-lab`")
	}
	l := &Lab{Dir: os.Getenv("OBSERVE_DIR"), image: cmp.Or(os.Getenv("IMAGE_NAME"), "quay.io/capstan-io/capstan:0.1.0")}
	if l.Dir == "" {
		dir, err := os.MkdirTemp("/var/lib", "capstan-obs-")
		if err != nil {
			t.Fatal(err)
		}
		l.Dir = dir
		t.Cleanup(func() {
			if _, err := l.RunTool(context.WithoutCancel(t.Context()), "lab", "--dir", dir, "down"); err != nil {
				t.Error(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
	l.kubeconfig = filepath.Join(l.Dir, "observe-kubeconfig")
	clusters := filepath.Join(l.Dir, "observe.yaml")
	content := fmt.Sprintf("clusters:\n- name: %s\n- name: %s\n- name: %s\n  nodeless: true\n", Hub, Member, Pushed)
	if err := os.WriteFile(clusters, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	l.MustRun(t, "lab", "--dir", l.Dir, "up", "--install-packages", "--config", clusters)
	if err := os.WriteFile(l.kubeconfig, []byte(l.MustRun(t, "lab", "--dir", l.Dir, "kubeconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.MustRun(t, "lab", "--dir", l.Dir, "load-image", stories.Root+"/bin/capstan-image.tar", "--cluster", Hub, "--cluster", Member)
	return l
}

// InstallRules makes the hub, and lets both members join it.
func (l *Lab) InstallRules(t testing.TB) {
	t.Helper()
	l.MustRun(t, "kubectl", "--context", Hub, "apply", "-k", stories.Root+"/config/samples/propagation")
	l.MustRun(t, "capstan", "init", "--context", Hub, "--image", l.image, "--replicas", "1", "--feature-gates", "Propagation=true", "--timeout", Patience.String())
	register := l.MustRun(t, "capstan", "token", "create", "--context", Hub, "--cluster-name", Member, "--auto-accept", "--print-register-command")
	arguments := append(strings.Fields(strings.TrimSpace(register)), "--context", Member, "--cluster-name", Member, "--image", l.image, "--timeout", Patience.String())
	l.MustRun(t, arguments[0], arguments[1:]...)
	l.MustRun(t, "capstan", "join", Pushed, "--context", Hub, "--cluster-kubeconfig", l.kubeconfig, "--cluster-context", Pushed)
	// Alerts about silent clusters need not wait for five minutes.
	for _, name := range []string{Member, Pushed} {
		l.MustRun(t, "kubectl", "--context", Hub, "patch", "managedcluster", name, "--type=merge", "-p", `{"spec":{"leaseDurationSeconds":10}}`)
	}
}

// RunTool runs a program of Capstan or of the lab, and returns what it prints.
func (l *Lab) RunTool(ctx context.Context, program string, args ...string) (string, error) {
	for _, dir := range []string{stories.Root + "/bin", stories.Root + "/test/lab/bin"} {
		if path, err := filepath.Abs(filepath.Join(dir, program)); err == nil {
			if _, err := os.Stat(path); err == nil {
				program = path
			}
		}
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// MustRun runs a tool, which has to succeed.
func (l *Lab) MustRun(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := l.RunTool(t.Context(), program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ApplyText applies the YAML text on a cluster.
func (l *Lab) ApplyText(t testing.TB, cluster, yaml string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	l.MustRun(t, "kubectl", "--context", cluster, "apply", "--server-side", "-f", path)
}

// pods are what the targets are made of.
type pods struct {
	Items []struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct {
			Containers []struct {
				Name string
				Args []string
			}
		}
		Status struct{ PodIP string }
	}
}

// FindTargets are those of a cluster, as a Prometheus there finds them.
func (l *Lab) FindTargets(ctx context.Context, cluster string) (*targetgroup.Group, error) {
	out, err := l.RunTool(ctx, "kubectl", "--context", cluster, "get", "pods", "-A", "--field-selector=status.phase=Running", "-o", "json")
	if err != nil {
		return nil, err
	}
	found := pods{}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, fmt.Errorf("reading the pods of %s: %w", cluster, err)
	}
	group := &targetgroup.Group{Source: cluster, Labels: model.LabelSet{"cluster": model.LabelValue(cluster), "job": "capstan"}}
	for _, pod := range found.Items {
		if !strings.HasPrefix(pod.Metadata.Namespace, "open-cluster-management") || pod.Status.PodIP == "" {
			continue
		}
		port := metricsPortDefault
		if strings.HasSuffix(pod.Metadata.Labels["app"], "apiserver") {
			port = apiServerPort
		}
		for _, arg := range pod.Spec.Containers[0].Args {
			if value, is := strings.CutPrefix(arg, "--metrics-port="); is {
				port = value
			}
		}
		group.Targets = append(group.Targets, model.LabelSet{
			model.AddressLabel: model.LabelValue(pod.Status.PodIP + ":" + port),
			"namespace":        model.LabelValue(pod.Metadata.Namespace), "pod": model.LabelValue(pod.Metadata.Name),
		})
	}
	return group, nil
}

// RequestToken is one of an account that has the role for readers of metrics, which the
// operator on the cluster has made, and nothing else.
func (l *Lab) RequestToken(t testing.TB, cluster string) string {
	t.Helper()
	role := map[string]string{
		Hub: "open-cluster-management:cluster-manager-metrics-reader", Member: "open-cluster-management:klusterlet-metrics-reader",
	}[cluster]
	l.ApplyText(t, cluster, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus-reads-capstan}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: default}]
`, role))
	return strings.TrimSpace(l.MustRun(t, "kubectl", "--context", cluster, "-n", "default", "create", "token", "prometheus", "--duration", "3h"))
}

// NetworkOf is the name of the network namespace of a cluster, in which its pods are
// reached.
func (l *Lab) NetworkOf(t testing.TB, cluster string) string {
	t.Helper()
	return strings.TrimSpace(l.MustRun(t, "lab", "--dir", l.Dir, "exec", cluster, "--", "sh", "-c", "ip netns identify $$"))
}

// Eventually waits until check returns nil.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", Patience, err)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			t.Fatalf("cut off: %v", err)
		}
	}
}

// Number prints a value as a rule has it.
func Number(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }
