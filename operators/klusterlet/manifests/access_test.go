// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestAgentsManageWhatNobodyElseIsHarmedBy follows the table in docs/security.md.
func TestAgentsManageWhatNobodyElseIsHarmedBy(t *testing.T) {
	manages := func(group, resource string, verbs ...string) bool {
		return slices.ContainsFunc(ExecutionRules(), func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
				!slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(rule.Verbs, verb) })
		})
	}
	for _, of := range [][2]string{
		{"", "resourcequotas"},
		{"", "limitranges"},
		{"", "podtemplates"},
		{"", "namespaces"},
		{"scheduling.k8s.io", "priorityclasses"},
		{"storage.k8s.io", "storageclasses"},
		{"storage.k8s.io", "volumeattributesclasses"},
		{"networking.k8s.io", "ingressclasses"},
		{"node.k8s.io", "runtimeclasses"},
		{"resource.k8s.io", "deviceclasses"},
	} {
		if !manages(of[0], of[1], "get", "list", "watch", "create", "update", "patch", "delete") {
			t.Errorf("an agent may not manage %s of group %q", of[1], of[0])
		}
	}
	for _, of := range [][2]string{
		{"", "endpoints"},
		{"discovery.k8s.io", "endpointslices"},
		{"", "persistentvolumes"},
		{"storage.k8s.io", "csidrivers"},
		{"flowcontrol.apiserver.k8s.io", "flowschemas"},
		{"flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicybindings"},
		{"admissionregistration.k8s.io", "mutatingadmissionpolicies"},
		{"admissionregistration.k8s.io", "mutatingadmissionpolicybindings"},
	} {
		if manages(of[0], of[1]) {
			t.Errorf("an agent may use %s of group %q without a labelled role", of[1], of[0])
		}
	}
	if manages("admissionregistration.k8s.io", "validatingwebhookconfigurations", "delete") {
		t.Error("an agent may delete webhooks")
	}
	for _, rule := range ExecutionRules() {
		if slices.Contains(append(slices.Clone(rule.APIGroups), append(rule.Resources, rule.Verbs...)...), "*") {
			t.Errorf("the rule %v has a wildcard", rule)
		}
	}
}
