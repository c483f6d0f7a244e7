// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// TestAnAgentMayNothingWithoutItsName reads every rule that counts in the whole
// hub: each of them names the cluster, but for certificate requests, which the
// API server gives no names before they are made.
func TestAnAgentMayNothingWithoutItsName(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		role := ClusterRole("east", accepted)
		if role.Name != "open-cluster-management:managedcluster:east" {
			t.Errorf("the role is %q", role.Name)
		}
		for _, rule := range role.Rules {
			named := len(rule.ResourceNames) > 0 && !slices.ContainsFunc(rule.ResourceNames, func(name string) bool {
				return name != "east" && (name != "" || rule.Verbs[0] != "renew")
			})
			if !named && !slices.Equal(rule.Resources, []string{"certificatesigningrequests"}) {
				t.Errorf("accepted %t: the rule %v is about more than the cluster", accepted, rule)
			}
			if strings.Contains(strings.Join(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), " "), "*") {
				t.Errorf("accepted %t: the rule %v has a wildcard", accepted, rule)
			}
		}
	}
}

// TestAnAgentMayOnlyReadCustomizations: they are the users' of the hub, and whoever
// writes one has a say in what all clusters apply.
func TestAnAgentMayOnlyReadCustomizations(t *testing.T) {
	want := rbacv1.PolicyRule{
		APIGroups: []string{"config.karmada.io"}, Resources: []string{"resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"}, Verbs: []string{"get", "list", "watch"},
	}
	if diff := cmp.Diff(want, CustomizationReaderRule()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnAgentThatIsNotAcceptedMayOnlyReadItsCluster(t *testing.T) {
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclusters"},
		ResourceNames: []string{"east"}, Verbs: []string{"get", "list", "watch"},
	}}
	if diff := cmp.Diff(want, ClusterRole("east", false).Rules); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestBindingsAreForTheAgentsOfOneClusterInItsNamespace(t *testing.T) {
	agents := AgentSubjects("east", "one")
	pushAgent := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "hub", Name: "push-agent-sa"}}
	cases := map[string]struct {
		reason   string
		binding  *rbacv1.RoleBinding
		name     string
		role     string
		subjects []rbacv1.Subject
		held     bool
	}{
		"registration": {
			reason: "heartbeats", binding: RegistrationRoleBinding("east", agents...), name: "open-cluster-management:managedcluster:east:registration",
			role: "open-cluster-management:managedcluster:registration", subjects: agents,
		},
		"work": {
			reason: "an agent cleans up before it loses its rights", binding: WorkRoleBinding("east", agents...), name: "open-cluster-management:managedcluster:east:work",
			role: "open-cluster-management:managedcluster:work", subjects: agents, held: true,
		},
		"credentials": {
			reason: "agents of clusters never read credentials", binding: CredentialsRoleBinding("east", "hub"),
			name: "open-cluster-management:managedcluster:east:credentials", role: "open-cluster-management:push-agent:credentials", subjects: pushAgent,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := tc.binding
			if b.Namespace != "east" || b.Name != tc.name || b.RoleRef != roleRef(tc.role) || b.Labels[clusterv1.LabelClusterName] != "east" {
				t.Errorf("%s: the binding is %s/%s for %v, labelled %v", tc.reason, b.Namespace, b.Name, b.RoleRef, b.Labels)
			}
			if diff := cmp.Diff(tc.subjects, b.Subjects); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if held := slices.Contains(b.Finalizers, clusterv1.FinalizerManifestWorkCleanup); held != tc.held {
				t.Errorf("%s: it is kept until no work is left: %t, want %t", tc.reason, held, tc.held)
			}
		})
	}
	if diff := cmp.Diff(agents, ClusterRoleBinding("east", agents...).Subjects); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSharedRolesReachNoSecret(t *testing.T) {
	for _, role := range SharedRoles() {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") {
				t.Errorf("%s: agents may do too much: %v", role.Name, rule)
			}
		}
	}
}

func TestALeaseBeginsWithAHeartbeat(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lease := InitialLease("east", 30, now)
	if lease.Namespace != "east" || lease.Name != clusterv1.LeaseName || *lease.Spec.LeaseDurationSeconds != 30 || !lease.Spec.RenewTime.Time.Equal(now) {
		t.Errorf("a new cluster must have the time of a heartbeat before it is missed: %+v", lease)
	}
}

func TestNamesThatWouldCollide(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		want   string // in the answer; "" is usable
	}{
		"an ordinary name":            {reason: "it is free", name: "east-1"},
		"no name of a namespace":      {reason: "the namespace could not be made", name: "East", want: "is not a valid namespace name"},
		"a dot":                       {reason: "a namespace is one label", name: "a.b", want: "is not a valid namespace name"},
		"the group of all clusters":   {reason: "its agent would be in every cluster's group", name: "managed-clusters", want: "reserved"},
		"the shared role of agents":   {reason: "it would be overwritten", name: "registration", want: "reserved"},
		"the shared role of works":    {reason: "it would be overwritten", name: "work", want: "reserved"},
		"the namespace of everybody":  {reason: "others have things there", name: "default", want: "reserved"},
		"a namespace of Kubernetes":   {reason: "others have things there", name: "kube-system", want: "reserved"},
		"one that only begins alike":  {reason: "the prefix has a dash", name: "kubernetes"},
		"one that contains a reserve": {reason: "only the whole name counts", name: "work-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := UnusableReason(tc.name)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: %q", tc.reason, got)
			}
		})
	}
}
