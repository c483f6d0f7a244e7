// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
)

func TestDaemonsAreToldFromUsersOfTheLab(t *testing.T) {
	l := Lab{Dir: "/var/lib/here"}
	for name, test := range map[string]struct {
		args []string
		want bool
	}{
		"a daemon":                   {[]string{"kubelet", "--config=/var/lib/here/clusters/a/kubelet.yaml"}, true},
		"a shim":                     {[]string{"/usr/bin/containerd-shim-runc-v2", "-address", "/var/lib/here/clusters/a/containerd.sock"}, true},
		"a daemon of another lab":    {[]string{"kubelet", "--config=/var/lib/hereafter/clusters/a/kubelet.yaml"}, false},
		"a client with a kubeconfig": {[]string{"kubectl", "--kubeconfig", "/var/lib/here/kubeconfig", "get", "nodes"}, false},
		"the lab itself":             {[]string{"lab", "--dir", "/var/lib/here", "leftovers"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := l.isDaemon(daemon.Process{Args: test.args}); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestALabThatNeverWasLeavesNothing(t *testing.T) {
	l := Lab{Dir: filepath.Join(t.TempDir(), "none")}
	found, err := l.files()
	if err != nil || len(found) > 0 {
		t.Errorf("files: %q (%v)", found, err)
	}
	if found, err := l.mounts(); err != nil || len(found) > 0 {
		t.Errorf("mounts: %q (%v)", found, err)
	}
}

func TestFilesOfTheLabAreFound(t *testing.T) {
	l := Lab{Dir: t.TempDir()}
	file := filepath.Join(l.Dir, "lab.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := l.files()
	if err != nil || len(found) != 1 || found[0] != file {
		t.Errorf("got %q (%v), want %s", found, err, file)
	}
}
