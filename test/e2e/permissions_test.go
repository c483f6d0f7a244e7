// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// committed has what each account may do, on an API server that has nothing but
// the accounts; its own test writes it.
const committed = "../integration/permissions/testdata"

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

// permissionsAreAsCommitted compares what the operators' manifests, and they
// themselves, let each ServiceAccount do with what is committed.
func (s *story) permissionsAreAsCommitted(t *testing.T) {
	for _, account := range []struct {
		cluster                 harness.Cluster
		folder, namespace, name string
	}{
		{s.hub, "operators", operatorNamespace, "cluster-manager"},
		{s.hub, "hub", operatorNamespace, "agent-registration-bootstrap"},
		{s.hub, "hub", hubNamespace, "registration-controller-sa"},
		{s.hub, "hub", hubNamespace, "registration-webhook-sa"},
		{s.hub, "hub", hubNamespace, "work-webhook-sa"},
		{s.hub, "hub", hubNamespace, "push-agent-sa"},
		{s.member, "operators", operatorNamespace, "klusterlet"},
		{s.member, "member", agentNamespace, "klusterlet-registration-sa"},
		{s.member, "member", agentNamespace, "klusterlet-work-sa"},
	} {
		t.Run(account.name, func(t *testing.T) {
			account.cluster.RunKubectl(t, "-n", account.namespace, "get", "serviceaccount", account.name)
			got := canonical(account.cluster.RunKubectl(t, "auth", "can-i", "--list", "--no-headers", "-n", account.namespace,
				"--as", "system:serviceaccount:"+account.namespace+":"+account.name))
			want, err := os.ReadFile(filepath.Join(committed, account.folder, account.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("permissions of %s (-committed +found):\n%s", account.name, diff)
			}
		})
	}
}
