// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// TestWalkthroughs plays what the guides tell a user to type, command by
// command. The scripts share the clusters of the lab, so they run in turn, and
// each ends with clusters that have nothing of Capstan.
func TestWalkthroughs(t *testing.T) {
	var clusters []harness.Cluster
	for _, name := range theLab.Clusters {
		clusters = append(clusters, theLab.Cluster(name))
	}
	harness.DiagnoseFailure(t, clusters...)
	deadline, _ := t.Deadline()
	testscript.RunT(inTurn{t}, testscript.Params{
		Dir:      "testdata/walkthrough",
		Deadline: deadline,
		Setup:    prepareScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"until":        until,
			"nothing-left": nothingLeft,
			"remember":     remember,
			"as-before":    asBefore,
			"unharmed":     unharmed,
			"interpreter":  interpreter,
		},
	})
}

// prepareScript lets a script find the programs and the clusters of the lab as
// a user finds theirs.
func prepareScript(env *testscript.Env) error {
	own := env.Vars
	env.Vars = append(os.Environ(), own...)
	env.Setenv("HOME", os.Getenv("HOME"))
	env.Setenv("PATH", filepath.Join(theLab.Root, "bin")+":"+filepath.Join(theLab.Root, "test/lab/bin")+":"+os.Getenv("PATH"))
	env.Setenv("ROOT", theLab.Root)
	env.Setenv("LAB_DIR", theLab.Dir)
	env.Setenv("KUBECONFIG", theLab.KubeconfigPath())
	env.Setenv("KUBECTL", theLab.ToolPath("kubectl"))
	env.Setenv("IMAGE_NAME", theLab.Image)
	env.Setenv("PATIENCE", harness.Patience.String())
	env.Setenv("NEXT", "bin/next")
	env.Values[memory{}] = map[string]objects{}
	release, err := latestRelease()
	env.Setenv("RELEASED", "bin/released/"+release)
	env.Setenv("RELEASED_IMAGE", "quay.io/capstan-io/capstan-released:"+strings.TrimPrefix(release, "v"))
	return err
}

// latestRelease returns the version from which the scripts upgrade.
func latestRelease() (string, error) {
	text, err := os.ReadFile(filepath.Join(theLab.Root, "test/upgrade/releases.txt"))
	if err != nil {
		return "", err
	}
	versions := regexp.MustCompile(`(?m)^v\S+`).FindAllString(string(text), -1)
	if len(versions) == 0 {
		return "", errors.New("test/upgrade/releases.txt names no release")
	}
	return versions[len(versions)-1], nil
}

// until runs a program again and again until it succeeds and its standard
// output matches a regular expression: until REGEXP PROGRAM [ARGUMENT...].
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM [ARGUMENT...]")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for looks, deadline := 0, time.Now().Add(harness.Patience); ; looks++ {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %s, %q does not print %q", harness.Patience, args[1:], args[0])
		}
		time.Sleep(harness.Pause(looks))
	}
}

// nothingLeft fails the script if a cluster has something of Capstan:
// nothing-left CLUSTER....
func nothingLeft(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: nothing-left CLUSTER...")
	}
	for _, name := range args {
		var left error
		for looks, deadline := 0, time.Now().Add(harness.Patience); time.Now().Before(deadline); looks++ {
			if left = theLab.Cluster(name).FindLeftovers(context.Background()); left == nil {
				break
			}
			time.Sleep(harness.Pause(looks))
		}
		ts.Check(left)
	}
}

// inTurn runs the scripts one after the other; testscript would run them all
// at once.
type inTurn struct{ *testing.T }

// Parallel implements testscript.T.
func (inTurn) Parallel() {}

// Verbose implements testscript.T.
func (inTurn) Verbose() bool { return testing.Verbose() }

// Run implements testscript.T.
func (t inTurn) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(inTurn{t}) })
}
