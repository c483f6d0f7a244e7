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
)

// TestWalkthroughs plays what the guides tell a user to type, command by
// command. The scripts share the clusters of the lab, so they run in turn, and
// each ends with clusters that have nothing of Capstan.
func TestWalkthroughs(t *testing.T) {
	var clusters []cluster
	for _, name := range theLab.clusters {
		clusters = append(clusters, inLab(name))
	}
	diagnose(t, clusters...)
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
	env.Setenv("PATH", filepath.Join(theLab.root, "bin")+":"+filepath.Join(theLab.root, "test/lab/bin")+":"+os.Getenv("PATH"))
	env.Setenv("ROOT", theLab.root)
	env.Setenv("LAB_DIR", theLab.dir)
	env.Setenv("KUBECONFIG", theLab.kubeconfig())
	env.Setenv("KUBECTL", theLab.bin("kubectl"))
	env.Setenv("IMAGE_NAME", theLab.image)
	env.Setenv("PATIENCE", patience.String())
	env.Setenv("NEXT", "bin/next")
	env.Values[memory{}] = map[string]objects{}
	release, err := latestRelease()
	env.Setenv("RELEASED", "bin/released/"+release)
	env.Setenv("RELEASED_IMAGE", "quay.io/capstan-io/capstan-released:"+strings.TrimPrefix(release, "v"))
	return err
}

// latestRelease returns the version from which the scripts upgrade.
func latestRelease() (string, error) {
	text, err := os.ReadFile(filepath.Join(theLab.root, "test/upgrade/releases.txt"))
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
	for looks, deadline := 0, time.Now().Add(patience); ; looks++ {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %s, %q does not print %q", patience, args[1:], args[0])
		}
		time.Sleep(pause(looks))
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
		for looks, deadline := 0, time.Now().Add(patience); time.Now().Before(deadline); looks++ {
			if left = inLab(name).leftovers(context.Background()); left == nil {
				break
			}
			time.Sleep(pause(looks))
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
