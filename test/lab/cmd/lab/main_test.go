// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute calls lab with arguments, for a lab that does not exist.
func execute(t *testing.T, args ...string) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("all but root are refused before anything else")
	}
	// Not in t.TempDir, whose path is too long for the sockets of a lab.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	root := newRootCommand()
	root.SetArgs(append([]string{"--dir", dir}, args...))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.ExecuteContext(t.Context())
}

func TestMistakesAreExplained(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("clusters:\n- name: No_Label\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nodeless without a name":       {[]string{"up", "--nodeless"}, "need --name"},
		"duration without a name":       {[]string{"up", "--signing-duration", "10m"}, "need --name"},
		"names and a file":              {[]string{"up", "--name", "a", "--config", config}, "[config name]"},
		"a name that is no label":       {[]string{"up", "--config", config}, "No_Label"},
		"a negative duration":           {[]string{"up", "--name", "a", "--signing-duration", "-1s"}, "negative"},
		"a cluster that is not there":   {[]string{"stop", "other"}, `no cluster "other"`},
		"a component of many clusters":  {[]string{"stop", "a", "b", "--component", "kubelet"}, "one cluster"},
		"a cluster cut off from itself": {[]string{"partition", "a", "a"}, "twice"},
		"the kubeconfig of nothing":     {[]string{"kubeconfig", "--path"}, "lab up"},
		"a path and names":              {[]string{"kubeconfig", "--path", "a"}, "--path or names"},
		"an image of nothing":           {[]string{"image"}, `"binary", "output", "ref" not set`},
	} {
		t.Run(name, func(t *testing.T) {
			err := execute(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that contains %q", err, test.want)
			}
		})
	}
}

func TestTheDirectoryComesFromTheEnvironment(t *testing.T) {
	t.Setenv("LAB_DIR", "/var/lib/elsewhere")
	if got := newRootCommand().PersistentFlags().Lookup("dir").DefValue; got != "/var/lib/elsewhere" {
		t.Errorf("the default is %q", got)
	}
}

func TestALabThatNeverWasLeavesNothing(t *testing.T) {
	if err := execute(t, "leftovers"); err != nil {
		t.Error(err)
	}
}
