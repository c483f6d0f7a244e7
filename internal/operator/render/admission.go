// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// AdmissionPolicy returns a ValidatingAdmissionPolicy that says what the spec says, refuses
// what cannot be decided, and looks at objects in all namespaces and with all labels but
// where the spec selects some. With it comes the binding of the same name that has it
// refuse requests.
func AdmissionPolicy(m ResourceMeta, spec *admissionv1ac.ValidatingAdmissionPolicySpecApplyConfiguration) []Object {
	spec.WithFailurePolicy(admissionv1.Fail)
	match := spec.MatchConstraints.WithMatchPolicy(admissionv1.Equivalent)
	// As the API server defaults them, so that what is applied is what is there.
	if match.NamespaceSelector == nil {
		match.WithNamespaceSelector(metav1ac.LabelSelector())
	}
	if match.ObjectSelector == nil {
		match.WithObjectSelector(metav1ac.LabelSelector())
	}
	return []Object{
		admissionv1ac.ValidatingAdmissionPolicy(m.Name).WithLabels(m.Labels).WithSpec(spec),
		admissionv1ac.ValidatingAdmissionPolicyBinding(m.Name).WithLabels(m.Labels).WithSpec(admissionv1ac.ValidatingAdmissionPolicyBindingSpec().
			WithPolicyName(m.Name).
			WithValidationActions(admissionv1.Deny)),
	}
}

// AdmissionRule matches operations on resources of a group in all its versions.
func AdmissionRule(group string, resources []string, operations ...admissionv1.OperationType) *admissionv1ac.NamedRuleWithOperationsApplyConfiguration {
	return admissionv1ac.NamedRuleWithOperations().WithOperations(operations...).
		WithAPIGroups(group).WithAPIVersions("*").WithResources(resources...).WithScope(admissionv1.AllScopes)
}
