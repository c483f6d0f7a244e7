// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package boundtoken_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cluster-bootstrap/token/util"

	"github.com/capstan-io/capstan/internal/registration/boundtoken"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	holder = "system:bootstrap:abcdef"
	group  = "system:bootstrappers:managedcluster"
)

func TestOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		user    string
		groups  []string
		allowed []string
		refused []string
		accepts []string
		text    string
	}{
		"a token without bounds": {
			groups: []string{"system:bootstrappers", group}, allowed: []string{"edge", "edge-1"}, text: "any cluster",
		},
		"a token for one name": {
			reason: "exactly that name", groups: []string{group, group + ":name:edge"},
			allowed: []string{"edge"}, refused: []string{"edge-1", "edg", "xedge", ""}, text: "edge",
		},
		"a token for a prefix": {
			reason: "the prefix ends with a dash, so the name without it is another one", groups: []string{group, group + ":prefix:edge-:x"},
			allowed: []string{"edge-1", "edge-x"}, refused: []string{"edge", "edg", "xedge-1", ""}, text: "edge-*",
		},
		"a prefix without a dash": {
			groups: []string{group, group + ":prefix:edge:x"}, allowed: []string{"edge", "edge-1", "edges"}, refused: []string{"edg"}, text: "edge*",
		},
		"several": {
			reason: "each counts", groups: []string{group + ":name:b", group + ":prefix:a-:x"},
			allowed: []string{"b", "a-1"}, refused: []string{"a", "b-1", "c"}, text: "a-*, b",
		},
		"an empty prefix": {
			reason: "it would be every name", groups: []string{group, group + ":prefix::x"}, refused: []string{"edge", "x"}, text: "no cluster",
		},
		"a prefix without its end":     {reason: "not one of ours", groups: []string{group + ":prefix:edge-"}, refused: []string{"edge-1"}, text: "no cluster"},
		"a prefix with a further part": {reason: "not one of ours", groups: []string{group + ":prefix:a:b:x"}, refused: []string{"a:b", "a", "ab"}, text: "no cluster"},
		"an empty name":                {reason: "not one of ours", groups: []string{group + ":name:"}, refused: []string{"", "edge"}, text: "no cluster"},
		"a name that is a pattern":     {reason: "names are names", groups: []string{group + ":name:edge*"}, refused: []string{"edge", "edge-1"}, text: "no cluster"},
		"a group of a later release": {
			reason: "what is not understood must not widen anything", groups: []string{group, group + ":set:prod"}, refused: []string{"prod", "edge"}, text: "no cluster",
		},
		"a group of a later release besides a name": {
			reason: "the name still counts", groups: []string{group + ":set:prod", group + ":name:edge"}, allowed: []string{"edge"}, refused: []string{"prod"}, text: "edge",
		},
		"accepted automatically": {
			reason: "bound and allowed", groups: []string{group, group + ":name:edge", group + ":auto-accept"},
			allowed: []string{"edge"}, refused: []string{"prod"}, accepts: []string{"edge"}, text: "edge",
		},
		"accepted automatically without being bound": {
			reason: "that has no effect, neither way", groups: []string{group, group + ":auto-accept"}, allowed: []string{"edge", "prod"}, text: "any cluster",
		},
		"accepted automatically and bound to nothing": {
			groups: []string{group, group + ":prefix::x", group + ":auto-accept"}, refused: []string{"edge"}, text: "no cluster",
		},
		"accepted automatically, somebody who is no token": {
			reason: "only tokens are made with this in mind", user: "anna", groups: []string{group + ":name:edge", group + ":auto-accept"},
			allowed: []string{"edge"}, text: "edge",
		},
		"accepted automatically, somebody whose name begins as that of a token": {
			reason: "an ID has six characters", user: holder + "g", groups: []string{group + ":name:edge", group + ":auto-accept"},
			allowed: []string{"edge"}, text: "edge",
		},
		"accepted automatically, somebody with less than a token's name": {
			reason: "an ID has six characters", user: "system:bootstrap:", groups: []string{group + ":name:edge", group + ":auto-accept"},
			allowed: []string{"edge"}, text: "edge",
		},
		"a group that only begins alike": {
			reason: "groups are compared whole", groups: []string{group + "s:name:edge", "x" + group + ":name:edge"}, allowed: []string{"prod"}, text: "any cluster",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.user == "" {
				tc.user = holder
			}
			b := boundtoken.BoundsOf(tc.user, tc.groups)
			for _, cluster := range tc.allowed {
				if !b.AllowsCluster(cluster) {
					t.Errorf("%s: it may not ask for %q", tc.reason, cluster)
				}
			}
			for _, cluster := range tc.refused {
				if b.AllowsCluster(cluster) {
					t.Errorf("%s: it may ask for %q", tc.reason, cluster)
				}
			}
			for _, cluster := range append(tc.allowed, tc.refused...) {
				if want := cmp.Equal([]string{cluster}, tc.accepts); b.AcceptsCluster(cluster) != want {
					t.Errorf("%s: accepts %q by itself: %t, want %t", tc.reason, cluster, !want, want)
				}
			}
			if b.String() != tc.text {
				t.Errorf("it is said to be bound to %q, want %q", b, tc.text)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	cases := map[string]struct {
		patterns []string
		accept   bool
		refused  string
	}{
		"names and prefixes":    {patterns: []string{"edge-*", "member1", strings.Repeat("x", 63)}},
		"accepted":              {patterns: []string{"edge-*"}, accept: true},
		"not bound":             {},
		"accepted, not bound":   {accept: true, refused: "must be bound"},
		"everything":            {patterns: []string{"*"}, refused: "matches all clusters"},
		"nothing":               {patterns: []string{""}, refused: "neither a cluster name"},
		"a wildcard in between": {patterns: []string{"a*b"}, refused: "neither a cluster name"},
		"two wildcards":         {patterns: []string{"a**"}, refused: "neither a cluster name"},
		"a dash only":           {patterns: []string{"-*"}, refused: "neither a cluster name"},
		"no name":               {patterns: []string{"Edge"}, refused: "neither a cluster name"},
		"a group in a name":     {patterns: []string{"a:auto-accept"}, refused: "neither a cluster name"},
		"two names in one":      {patterns: []string{"a,b"}, refused: "neither a cluster name"},
		"too long":              {patterns: []string{strings.Repeat("x", 63) + "*"}, refused: "neither a cluster name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			groups, err := boundtoken.TokenGroups(tc.patterns, tc.accept)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got %v, want an error with %q", err, tc.refused)
				}
				return
			}
			expect.NoError(t, err)
			for _, group := range groups {
				if err := util.ValidateBootstrapGroupName(group); err != nil {
					t.Errorf("the API server takes no such group: %v", err)
				}
			}
			b := boundtoken.BoundsOf(holder, groups)
			if diff := cmp.Diff(tc.patterns, b.ClusterPatterns()); diff != "" {
				t.Errorf("the groups %q stand for other patterns (-want +got):\n%s", groups, diff)
			}
			if b.AutoAccept() != tc.accept || b.IsBound() != (len(tc.patterns) > 0) {
				t.Errorf("the groups %q stand for %+v", groups, b)
			}
		})
	}
}

// FuzzOf checks that no group makes more of a token than its own group does.
func FuzzOf(f *testing.F) {
	for _, suffix := range []string{"name:edge", "prefix:edge-:x", "prefix::x", "auto-accept", "", "prefix:x", "name:*"} {
		f.Add(suffix, "edge-1")
	}
	f.Fuzz(func(t *testing.T, suffix, cluster string) {
		b := boundtoken.BoundsOf(holder, []string{group, group + ":" + suffix, group + ":auto-accept"})
		if b.AcceptsCluster(cluster) && !b.AllowsCluster(cluster) {
			t.Errorf("%q: accepts %q, which it may not ask for", suffix, cluster)
		}
		if b.AcceptsCluster(cluster) && !strings.Contains(suffix, ":"+cluster) && !strings.HasPrefix(suffix, "prefix:"+cluster[:1]) {
			t.Errorf("%q: accepts %q", suffix, cluster)
		}
	})
}
