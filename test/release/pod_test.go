// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a pod may take that normally takes seconds.
const patience = 3 * time.Minute

// lab is a cluster of test/lab.
type lab struct{ root, dir string }

func newLab(t *testing.T) lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("real clusters need root: run `sudo make test-release`")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/lib", "capstan-release-")
	if err != nil {
		t.Fatal(err)
	}
	l := lab{root: root, dir: dir}
	t.Cleanup(func() {
		// The test's context is done by now.
		_, err := l.run(context.WithoutCancel(t.Context()), "down")
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	l.must(t, "up", "--install-packages", "--name", "release")
	kubeconfig := l.must(t, "kubeconfig")
	if err := os.WriteFile(l.kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l lab) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig.yaml") }

func (l lab) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, filepath.Join(l.root, "test/lab/bin/lab"), append([]string{"--dir", l.dir}, args...)...)
}

func (l lab) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (l lab) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), filepath.Join(l.root, "test/lab/bin/kubectl"), append([]string{"--kubeconfig", l.kubeconfig(), "--context", "release"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return string(out), nil
}

// TestPodsRunTheImage loads each archive of the image into a cluster, as who has
// no registry does, and starts its programs.
func TestPodsRunTheImage(t *testing.T) {
	m := fromMake(t)
	l := newLab(t)
	for name, archive := range map[string]string{
		"the OCI layout":         m.file("image.oci.tar"),
		"the archive for docker": m.file("image-linux-amd64.docker.tar"),
	} {
		t.Run(name, func(t *testing.T) {
			l.must(t, "load-image", archive)
			for pod, command := range map[string]string{
				"manager": "/capstan-manager", "operator": "/registration-operator", "apiserver": "/capstan-apiserver",
			} {
				l.kubectl(t, "run", pod, "--image", m.image, "--image-pull-policy", "Never", "--restart", "Never", "--command", "--", command, "--version")
				l.kubectl(t, "wait", "pod", pod, "--for", "jsonpath={.status.phase}=Succeeded", "--timeout", patience.String())
				if got := l.kubectl(t, "logs", pod); !strings.Contains(got, m.version) {
					t.Errorf("%s --version says %q, want %s", command, got, m.version)
				}
				l.kubectl(t, "delete", "pod", pod, "--now")
			}
			l.hubRuns(t, m)
			l.forget(t, m.image)
		})
	}
}

// hubRuns makes the cluster a hub, and a member of itself, with the command line and
// the image of the release: every program of the image serves, and the member becomes
// Available. Then all is removed.
func (l lab) hubRuns(t *testing.T, m made) {
	t.Helper()
	dir := t.TempDir()
	untar(t, m.file("linux-amd64")+".tar.gz", dir)
	capstan := func(args ...string) string {
		t.Helper()
		out, err := output(t.Context(), filepath.Join(dir, "capstan"), append(args, "--kubeconfig", l.kubeconfig(), "--context", "release")...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	capstan("init", "--image", m.image, "--feature-gates", "AggregatedAPI=true")
	register := capstan("token", "create", "--cluster-name", "cluster1", "--auto-accept", "--print-register-command")
	capstan(append(strings.Fields(register)[1:], "--cluster-name", "cluster1", "--image", m.image)...)
	l.kubectl(t, "wait", "managedcluster", "cluster1", "--for", "condition=ManagedClusterConditionAvailable", "--timeout", patience.String())
	if got := l.kubectl(t, "get", "clusters.cluster.karmada.io", "cluster1", "-o", "name"); got != "cluster.cluster.karmada.io/cluster1" {
		t.Errorf("the API server of the image serves %q, want cluster1", got)
	}
	capstan("unregister", "cluster1", "--cluster-kubeconfig", l.kubeconfig(), "--cluster-context", "release")
	capstan("clean")
}

// forget removes the image from the cluster, so that no archive is taken for
// another.
func (l lab) forget(t *testing.T, image string) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(l.dir, "*/release/containerd.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the lab has the sockets %q (%v), want one of containerd", sockets, err)
	}
	if _, err := output(t.Context(), "ctr", "--address", sockets[0], "--namespace", "k8s.io", "images", "rm", "--sync", image); err != nil {
		t.Fatal(err)
	}
}
