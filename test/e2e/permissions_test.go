// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the permissions that are found to testdata")

// wildcards are verbs, resources and groups that mean "all". The paths of
// discovery, which everybody may read, are none.
var wildcards = regexp.MustCompile(`(?m)^\*.*|.*\[[^]]*\*[^]]*\]$|^\S*\*\.\S*`)

// columns are what `kubectl auth can-i --list` prints in a line: resource,
// paths, resource names and verbs.
var columns = regexp.MustCompile(`^(\S*)\s+\[(.*)\]\s+\[(.*)\]\s+\[(.*)\]$`)

// canonical sorts lines and verbs, whose order says nothing and changes.
func canonical(list string) string {
	var lines []string
	for line := range strings.SplitSeq(list, "\n") {
		if match := columns.FindStringSubmatch(strings.TrimRight(line, " ")); match != nil {
			verbs := strings.Fields(match[4])
			slices.Sort(verbs)
			line = fmt.Sprintf("%s [%s] [%s] [%s]", match[1], match[2], match[3], strings.Join(verbs, " "))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// permissionsAreAsCommitted compares what each ServiceAccount of ours may do
// with the text in testdata: a change of a permission is a change of a file
// that a reviewer sees.
func (s *story) permissionsAreAsCommitted(t *testing.T) {
	for _, account := range []struct {
		cluster         cluster
		namespace, name string
	}{
		{s.hub, operatorNamespace, "cluster-manager"},
		{s.hub, operatorNamespace, "agent-registration-bootstrap"},
		{s.hub, hubNamespace, "registration-controller-sa"},
		{s.hub, hubNamespace, "registration-webhook-sa"},
		{s.hub, hubNamespace, "work-webhook-sa"},
		{s.hub, hubNamespace, "push-agent-sa"},
		{s.member, operatorNamespace, "klusterlet"},
		{s.member, agentNamespace, "klusterlet-registration-sa"},
		{s.member, agentNamespace, "klusterlet-work-sa"},
	} {
		t.Run(account.name, func(t *testing.T) {
			account.cluster.kubectl(t, "-n", account.namespace, "get", "serviceaccount", account.name)
			got := canonical(account.cluster.kubectl(t, "auth", "can-i", "--list", "--no-headers", "-n", account.namespace,
				"--as", "system:serviceaccount:"+account.namespace+":"+account.name))
			golden := filepath.Join("testdata", "permissions", account.name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("permissions of %s (-committed +found):\n%s", account.name, diff)
			}
			if found := wildcards.FindAllString(got, -1); len(found) > 0 {
				t.Errorf("%s may do everything with something: %q", account.name, found)
			}
		})
	}
}
