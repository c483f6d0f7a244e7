// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package prometheus

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
)

const (
	// patience is how long something may take that takes seconds normally. It only
	// decides how long a failure takes.
	patience = 10 * time.Minute
	pause    = 2 * time.Second

	hub, member, pushed = "hub", "member1", "push1"

	metricsPortDefault = "8080"
	apiServerPort      = "8443" // it serves its metrics beside its API
)

// lab has a hub, a Pull member, and a Push member without a node.
type lab struct {
	dir, kubeconfig, image string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("real clusters need root: run `sudo make test-observability-lab`")
	}
	l := &lab{dir: os.Getenv("OBSERVE_DIR"), image: cmp.Or(os.Getenv("IMAGE_NAME"), "quay.io/capstan-io/capstan:0.1.0")}
	if l.dir == "" {
		dir, err := os.MkdirTemp("/var/lib", "capstan-obs-")
		if err != nil {
			t.Fatal(err)
		}
		l.dir = dir
		t.Cleanup(func() {
			if _, err := l.run(context.WithoutCancel(t.Context()), "lab", "--dir", dir, "down"); err != nil {
				t.Error(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
	l.kubeconfig = filepath.Join(l.dir, "observe-kubeconfig")
	clusters := filepath.Join(l.dir, "observe.yaml")
	content := fmt.Sprintf("clusters:\n- name: %s\n- name: %s\n- name: %s\n  nodeless: true\n", hub, member, pushed)
	if err := os.WriteFile(clusters, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	l.must(t, "lab", "--dir", l.dir, "up", "--install-packages", "--config", clusters)
	if err := os.WriteFile(l.kubeconfig, []byte(l.must(t, "lab", "--dir", l.dir, "kubeconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.must(t, "lab", "--dir", l.dir, "load-image", root+"/bin/capstan-image.tar", "--cluster", hub, "--cluster", member)
	return l
}

// install makes the hub, and lets both members join it.
func (l *lab) install(t *testing.T) {
	t.Helper()
	l.must(t, "kubectl", "--context", hub, "apply", "-k", root+"/config/samples/propagation")
	l.must(t, "capstan", "init", "--context", hub, "--image", l.image, "--replicas", "1", "--feature-gates", "Propagation=true", "--timeout", patience.String())
	register := l.must(t, "capstan", "token", "create", "--context", hub, "--cluster-name", member, "--auto-accept", "--print-register-command")
	arguments := append(strings.Fields(strings.TrimSpace(register)), "--context", member, "--cluster-name", member, "--image", l.image, "--timeout", patience.String())
	l.must(t, arguments[0], arguments[1:]...)
	l.must(t, "capstan", "join", pushed, "--context", hub, "--cluster-kubeconfig", l.kubeconfig, "--cluster-context", pushed)
	// Alerts about silent clusters need not wait for five minutes.
	for _, name := range []string{member, pushed} {
		l.must(t, "kubectl", "--context", hub, "patch", "managedcluster", name, "--type=merge", "-p", `{"spec":{"leaseDurationSeconds":10}}`)
	}
}

// run runs a program of Capstan or of the lab, and returns what it prints.
func (l *lab) run(ctx context.Context, program string, args ...string) (string, error) {
	for _, dir := range []string{root + "/bin", root + "/test/lab/bin"} {
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

func (l *lab) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := l.run(t.Context(), program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies the YAML text on a cluster.
func (l *lab) apply(t *testing.T, cluster, yaml string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	l.must(t, "kubectl", "--context", cluster, "apply", "--server-side", "-f", path)
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

// targets are those of a cluster, as a Prometheus there finds them.
func (l *lab) targets(ctx context.Context, cluster string) (*targetgroup.Group, error) {
	out, err := l.run(ctx, "kubectl", "--context", cluster, "get", "pods", "-A", "--field-selector=status.phase=Running", "-o", "json")
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

// token is one of an account that has the role for readers of metrics, which the
// operator on the cluster has made, and nothing else.
func (l *lab) token(t *testing.T, cluster string) string {
	t.Helper()
	role := map[string]string{
		hub: "open-cluster-management:cluster-manager-metrics-reader", member: "open-cluster-management:klusterlet-metrics-reader",
	}[cluster]
	l.apply(t, cluster, fmt.Sprintf(`
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
	return strings.TrimSpace(l.must(t, "kubectl", "--context", cluster, "-n", "default", "create", "token", "prometheus", "--duration", "3h"))
}

// network is the name of the network namespace of a cluster, in which its pods are
// reached.
func (l *lab) network(t *testing.T, cluster string) string {
	t.Helper()
	return strings.TrimSpace(l.must(t, "lab", "--dir", l.dir, "exec", cluster, "--", "sh", "-c", "ip netns identify $$"))
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", patience, err)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			t.Fatalf("cut off: %v", err)
		}
	}
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }
