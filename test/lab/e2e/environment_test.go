// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/capstan-io/capstan/test/lab/internal/lab"
	"github.com/capstan-io/capstan/test/lab/internal/progress"
)

// bin is where make puts the executables.
const bin = "../bin"

// patience is how long something may take to come true.
const patience = 60 * time.Second

// interval is the time between two tries.
const interval = 500 * time.Millisecond

// environment is the lab under test.
type environment struct {
	*testing.T
	dir        string
	kubeconfig string
}

func newEnvironment(t *testing.T) *environment {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	e := &environment{T: t, dir: dir, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err == nil {
			e.lab("down")
		}
	})
	return e
}

// with returns the environment for a part of the test.
func (e *environment) with(t *testing.T) *environment {
	return &environment{T: t, dir: e.dir, kubeconfig: e.kubeconfig}
}

func (e *environment) lab(args ...string) string {
	e.Helper()
	output, err := e.tryLab(args...)
	if err != nil {
		e.Fatal(err)
	}
	return output
}

func (e *environment) tryLab(args ...string) (string, error) {
	return run(exec.Command(filepath.Join(bin, "lab"), append([]string{"--dir", e.dir}, args...)...))
}

func (e *environment) writeKubeconfig() {
	e.Helper()
	if err := os.WriteFile(e.kubeconfig, []byte(e.lab("kubeconfig")), 0o600); err != nil {
		e.Fatal(err)
	}
}

func (e *environment) kubectlCommand(cluster string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "kube"))
	cmd.Args = append([]string{"kubectl", "--context", cluster}, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.kubeconfig)
	return cmd
}

func (e *environment) tryKubectl(cluster string, args ...string) (string, error) {
	return run(e.kubectlCommand(cluster, args...))
}

func (e *environment) kubectl(cluster string, args ...string) string {
	e.Helper()
	output, err := e.tryKubectl(cluster, args...)
	if err != nil {
		e.Fatal(err)
	}
	return output
}

// apply applies a manifest of the test data.
func (e *environment) apply(cluster, name string, data map[string]any) {
	e.Helper()
	manifest, err := template.ParseFiles(filepath.Join("testdata", name))
	if err != nil {
		e.Fatal(err)
	}
	var content bytes.Buffer
	if err := manifest.Execute(&content, data); err != nil {
		e.Fatal(err)
	}
	cmd := e.kubectlCommand(cluster, "apply", "-f", "-")
	cmd.Stdin = &content
	if _, err := run(cmd); err != nil {
		e.Fatal(err)
	}
}

// get makes a request from inside a pod.
func (e *environment) get(cluster string, args ...string) error {
	_, err := e.tryKubectl(cluster, append([]string{"exec", "deployment/hello", "--", "/hello", "get"}, args...)...)
	return err
}

// server returns the address of the API server of a cluster.
func (e *environment) server(cluster string) string {
	e.Helper()
	return e.kubectl(cluster, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
}

// eventually tries something until it succeeds.
func (e *environment) eventually(try func() error) {
	e.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			e.Fatal(err)
		}
	}
}

// imagesIn lists the names of the images of an archive.
func (e *environment) imagesIn(archive string) []string {
	e.Helper()
	content, err := run(exec.Command("tar", "-xOf", archive, "manifest.json"))
	if err != nil {
		e.Fatal(err)
	}
	var manifest []struct{ RepoTags []string }
	if err := json.Unmarshal([]byte(content), &manifest); err != nil {
		e.Fatal(err)
	}
	var names []string
	for _, image := range manifest {
		names = append(names, image.RepoTags...)
	}
	if len(names) == 0 {
		e.Fatalf("there are no images in %s", archive)
	}
	return names
}

// processes lists the processes of the lab.
func (e *environment) processes() string {
	e.Helper()
	output, err := run(exec.Command("ps", "-e", "-o", "pid=,args="))
	if err != nil {
		e.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, e.dir) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// leftovers lists what there is of the lab on the machine, outside of its
// processes' own memory.
func (e *environment) leftovers() string {
	e.Helper()
	l, err := lab.Open(e.dir, progress.New(io.Discard))
	if err != nil {
		e.Fatal(err)
	}
	const list = `
		ps -e -o args=
		ip netns list
		ip -o link show
		cat /proc/mounts
		iptables-save
		find /sys/fs/cgroup -type d
		ls -d "$0"
		ls -l /var/log/containers
		grep -rl "$0" /var/lib/cni/results`
	// There is an error where there is nothing to list, as there should be.
	output, _ := exec.Command("sh", "-c", list, e.dir).Output()
	var left []string
	for line := range strings.Lines(string(output)) {
		isList := strings.HasPrefix(line, "sh -c")
		if !isList && (strings.Contains(line, e.dir) || strings.Contains(line, l.ID())) {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}

// shimSockets lists the sockets of the shims of containers, whose names do not
// tell that they are the lab's.
func (e *environment) shimSockets() []string {
	e.Helper()
	files, err := filepath.Glob(filepath.Join(e.dir, "clusters/*/containerd/state/io.containerd.runtime.v2.task/*/*/address"))
	if err != nil {
		e.Fatal(err)
	}
	var sockets []string
	for _, file := range files {
		address, err := os.ReadFile(file)
		if err != nil {
			e.Fatal(err)
		}
		sockets = append(sockets, strings.TrimPrefix(string(address), "unix://"))
	}
	if len(sockets) == 0 {
		e.Error("no container has a shim")
	}
	return sockets
}

func run(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
