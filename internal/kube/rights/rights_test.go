// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func rule(group, resources, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: group, Resources: resources, Verbs: verbs, ResourceNames: names}
}

func TestGrant(t *testing.T) {
	core, rbac, fleet := []string{""}, []string{rbacv1.GroupName}, []string{"fleet.capstan.io"}
	get, read := []string{"get"}, []string{"get", "list", "watch"}
	for name, test := range map[string]struct {
		reason           string
		held, wanted     []rbacv1.PolicyRule
		granted, missing []rbacv1.PolicyRule
	}{
		"all of it": {
			reason: "a rule that is held stays as it is written",
			held:   []rbacv1.PolicyRule{rule(core, []string{"pods", "secrets"}, []string{"*"})},
			wanted: []rbacv1.PolicyRule{rule(core, []string{"secrets", "pods"}, read, "one")}, granted: []rbacv1.PolicyRule{rule(core, []string{"secrets", "pods"}, read, "one")},
		},
		"a part of the verbs": {
			reason:  "the held verbs are granted, and the others said together",
			held:    []rbacv1.PolicyRule{rule(core, []string{"pods"}, get)},
			wanted:  []rbacv1.PolicyRule{rule(core, []string{"pods"}, read)},
			granted: []rbacv1.PolicyRule{rule(core, []string{"pods"}, get)}, missing: []rbacv1.PolicyRule{rule(core, []string{"pods"}, []string{"list", "watch"})},
		},
		"a part of the resources": {
			reason:  "resources with the same verbs are said together",
			held:    []rbacv1.PolicyRule{rule(core, []string{"pods"}, read)},
			wanted:  []rbacv1.PolicyRule{rule(core, []string{"pods", "nodes", "secrets"}, read)},
			granted: []rbacv1.PolicyRule{rule(core, []string{"pods"}, read)}, missing: []rbacv1.PolicyRule{rule(core, []string{"nodes", "secrets"}, read)},
		},
		"a part of the names": {
			reason:  "objects that are held by name",
			held:    []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get, "one")},
			wanted:  []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get, "one", "two", "three")},
			granted: []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get, "one")}, missing: []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get, "two", "three")},
		},
		"all names": {
			reason: "a name that is held is not all of them",
			held:   []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get, "one")},
			wanted: []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get)}, missing: []rbacv1.PolicyRule{rule(core, []string{"secrets"}, get)},
		},
		"nothing": {
			reason: "no empty rule is left over", wanted: []rbacv1.PolicyRule{rule(fleet, []string{"clusterconnections"}, read)},
			missing: []rbacv1.PolicyRule{rule(fleet, []string{"clusterconnections"}, read)},
		},
		"by escalation": {
			reason: "who may escalate needs to hold nothing",
			held:   []rbacv1.PolicyRule{rule(rbac, []string{"roles", "clusterroles"}, []string{"escalate"})},
			wanted: []rbacv1.PolicyRule{rule(fleet, []string{"clusterconnections"}, read)}, granted: []rbacv1.PolicyRule{rule(fleet, []string{"clusterconnections"}, read)},
		},
		"by escalation of one role": {
			reason: "that is for this role only",
			held:   []rbacv1.PolicyRule{rule(rbac, []string{"roles", "clusterroles"}, []string{"escalate"}, "one")},
			wanted: []rbacv1.PolicyRule{rule(core, []string{"pods"}, get)}, missing: []rbacv1.PolicyRule{rule(core, []string{"pods"}, get)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			granted, missing := FromRules(test.held...).SplitGrantable(test.wanted)
			if diff := cmp.Diff(test.granted, granted); diff != "" {
				t.Errorf("%s: granted, -want +got\n%s", test.reason, diff)
			}
			if diff := cmp.Diff(test.missing, missing); diff != "" {
				t.Errorf("%s: missing, -want +got\n%s", test.reason, diff)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	got := DescribeRules([]rbacv1.PolicyRule{
		rule([]string{""}, []string{"secrets"}, []string{"get", "list"}, "one", "two"),
		rule([]string{"fleet.capstan.io"}, []string{"clusterconnections", "clusterconnections/status"}, []string{"patch"}),
	})
	want := "get,list secrets (one,two); patch clusterconnections.fleet.capstan.io,clusterconnections/status.fleet.capstan.io"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAllAllowsEverything(t *testing.T) {
	if !AllRights().AllowsRules(rule([]string{"any"}, []string{"thing"}, []string{"eat"}, "one"), escalateRule()) {
		t.Error("there is something that all rights do not allow")
	}
}

func TestURLsAreNotLost(t *testing.T) {
	url := func(path string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{"get"}}
	}
	if got := DescribeRules(compactRules([]rbacv1.PolicyRule{url("/metrics"), url("/healthz")})); got != "get /metrics; get /healthz" {
		t.Errorf("got %q, want both URLs", got)
	}
}
