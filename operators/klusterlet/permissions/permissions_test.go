// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestTheOperatorsOwnRoleLacksNothing(t *testing.T) {
	held, _, err := config.Rules(config.Klusterlet)
	expect.NoError(t, err)
	if lacked := rights.FromRules(held...).MissingRules(wantedRules()...); len(lacked) > 0 {
		t.Errorf("the role that the operator is installed with lacks %s: add it to permissions.go and run make generate", rights.DescribeRules(lacked))
	}
}

func TestWhatIsOffDependsOnWhatIsLacked(t *testing.T) {
	var all *PermissionSet
	policies := ManagingNetworkPolicies()
	for name, test := range map[string]struct {
		set                 *PermissionSet
		pods, deletes       bool
		watchesPolicies     bool
		status              metav1.ConditionStatus
		reason              string
		message, notMessage string
	}{
		"Nothing": {
			set: &PermissionSet{}, pods: true, deletes: true, watchesPolicies: true,
			status: metav1.ConditionFalse, reason: operatorv1.KlusterletReasonAllFeaturesPermitted,
		},
		"Unknown": {
			set: all, pods: true, deletes: true, watchesPolicies: true,
			status: metav1.ConditionFalse, reason: operatorv1.KlusterletReasonAllFeaturesPermitted,
		},
		"Completed": {
			set: &PermissionSet{completed: ReadingAgentPods().rules}, pods: true, deletes: true, watchesPolicies: true,
			status: metav1.ConditionFalse, reason: operatorv1.KlusterletReasonPermissionsAdded, message: "list,watch pods",
		},
		"OneVerb": {
			set: &PermissionSet{lacked: policyRule("", "pods", "watch")}, deletes: true, watchesPolicies: true,
			status: metav1.ConditionTrue, reason: operatorv1.KlusterletReasonPermissionsMissing,
			message: "the rule: watch pods", notMessage: "networkpolicies",
		},
		"WritesOnly": {
			set: &PermissionSet{lacked: policyRule(networkingv1.GroupName, "networkpolicies", "create")}, pods: true, deletes: true, watchesPolicies: true,
			status: metav1.ConditionTrue, reason: operatorv1.KlusterletReasonPermissionsMissing, message: "create networkpolicies.networking.k8s.io",
		},
		"Much": {
			set:    &PermissionSet{lacked: slices.Concat(policies.rules, ReadingAgentPods().rules, DeletingAppliedWorks().rules)},
			status: metav1.ConditionTrue, reason: operatorv1.KlusterletReasonPermissionsMissing, message: "appliedmanifestworks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.set.Allows(ReadingAgentPods()) != test.pods || test.set.MayWatchKind(&corev1.Pod{}) != test.pods {
				t.Errorf("pods may be looked at: %t, want %t", !test.pods, test.pods)
			}
			if test.set.Allows(DeletingAppliedWorks()) != test.deletes {
				t.Errorf("AppliedManifestWorks may be deleted: %t, want %t", !test.deletes, test.deletes)
			}
			if test.set.MayWatchKind(&networkingv1.NetworkPolicy{}) != test.watchesPolicies {
				t.Errorf("NetworkPolicies are watched: %t, want %t", !test.watchesPolicies, test.watchesPolicies)
			}
			if !test.set.MayWatchKind(&rbacv1.Role{}) {
				t.Error("roles are not watched, though nothing says that they may not be")
			}
			got := test.set.FeaturesLimitedCondition()
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) ||
				test.notMessage != "" && strings.Contains(got.Message, test.notMessage) {
				t.Errorf("got %s/%s (%s), want %s/%s with %q and without %q",
					got.Status, got.Reason, got.Message, test.status, test.reason, test.message, test.notMessage)
			}
		})
	}
}
