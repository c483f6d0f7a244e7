// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agentlabels

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed, key string
		want         bool
	}{
		{"", "env", false},
		{"env", "env", true},
		{"env", "environment", false},
		{"env", "example.com/env", false},
		{"example.com/*", "example.com/env", true},
		{"example.com/*", "example.com", false},
		{"example.com/*", "sub.example.com/env", false},
		{"example.com/*", "example.company/env", false},
		{"a, example.com/env", "example.com/env", true},
		{"*", "anything.example.com/at-all", true},
		{"*", clusterv1.LabelClusterSet, false},
		{clusterv1.LabelClusterSet, clusterv1.LabelClusterSet, false},
	} {
		allowed, err := ParseAllowedKeys(c.allowed)
		expect.NoError(t, err)
		if got := allowed.AllowsKey(c.key); got != c.want {
			t.Errorf("with %q allowed, %q is allowed: %v", c.allowed, c.key, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"env=prod", "a b", "*/env", "example.com/", "e*", "env,*example.com/*"} {
		if allowed, err := ParseAllowedKeys(text); err == nil || !strings.Contains(err.Error(), "is neither the key of a label, such as example.com/env") {
			t.Errorf("%q is read as %q, %v", text, allowed, err)
		}
	}
}

func TestWhatIsNotedIsRead(t *testing.T) {
	t.Parallel()
	mc := &clusterv1.ManagedCluster{}
	if !AllowedOf(mc).AllowsKey("env") {
		t.Error("a hub that notes nothing keeps labels from the agent")
	}
	for _, allowed := range []AllowedKeys{nil, {"*"}, {"env", "example.com/*"}} {
		allowed.AnnotateCluster(mc)
		if diff := cmp.Diff(allowed.String(), AllowedOf(mc).String()); diff != "" || len(AllowedOf(mc)) != len(allowed) {
			t.Errorf("of %q is read %q", allowed, AllowedOf(mc))
		}
	}
}
