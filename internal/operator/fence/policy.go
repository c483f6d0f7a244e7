// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// podSecurityLabel is the label of a namespace that says what pods may do there.
const podSecurityLabel = "pod-security.kubernetes.io/enforce"

// FencePolicy returns the fence.
func (o FencedOperator) FencePolicy() *admissionv1.ValidatingAdmissionPolicy {
	fail := admissionv1.Fail
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: o.fenceMeta(),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: o.writtenResources()},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "operator", Expression: "request.userInfo.username == " + celQuote(o.serviceAccountUser()),
			}},
			Variables: []admissionv1.Variable{
				{Name: "subject", Expression: "request.operation == 'DELETE' ? oldObject : object"},
				{Name: "pod", Expression: "object.spec.template.spec"},
			},
			Validations: []admissionv1.Validation{
				o.namespacesOnly(), o.ownNamespaces(), o.protectedLabels(), noTokens(), o.ownAccounts(), o.noHost(),
			},
		},
	}
}

// FenceBinding returns what puts the fence into force.
func (o FencedOperator) FenceBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: o.fenceMeta(),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: o.FenceName(), ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}

func (o FencedOperator) fenceMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.FenceName(), Labels: map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}}
}

// writtenResources are the resources that the operator writes, except for Leases, Events
// and custom resources: these lead to no credential, and as everybody writes
// them all the time, a fence around them would cost the API server work.
func (o FencedOperator) writtenResources() []admissionv1.NamedRuleWithOperations {
	rule := func(scope admissionv1.ScopeType, group string, resources ...string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: &scope},
		}}
	}
	rules := []admissionv1.NamedRuleWithOperations{
		rule(admissionv1.NamespacedScope, "", "configmaps", "secrets", "serviceaccounts", "services"),
		rule(admissionv1.NamespacedScope, "apps", o.workloads...),
		rule(admissionv1.NamespacedScope, "networking.k8s.io", "networkpolicies"),
		rule(admissionv1.NamespacedScope, "policy", "poddisruptionbudgets"),
		rule(admissionv1.NamespacedScope, "rbac.authorization.k8s.io", "roles", "rolebindings"),
		rule(admissionv1.ClusterScope, "", "namespaces"),
	}
	for _, f := range o.further {
		rules = append(rules, rule(admissionv1.NamespacedScope, f.group, f.resources...))
	}
	return rules
}

// namespacesOnly limits what has a namespace to those of the operator.
func (o FencedOperator) namespacesOnly() admissionv1.Validation {
	allowed := append([]string{
		celResourceIn("namespaces"),
		"request.namespace in " + celStringList(o.namespaces...),
		celHasLabel("namespaceObject", operatorv1.LabelOperatedBy, o.name),
	}, o.exceptions...)
	return admissionv1.Validation{
		Expression: "(" + strings.Join(allowed, ") || (") + ")",
		MessageExpression: fmt.Sprintf("'the operator %s may not write to namespace \"' + request.namespace + '\"; to allow it, "+
			"label the namespace %s=%s'", o.name, operatorv1.LabelOperatedBy, o.name),
	}
}

// ownNamespaces limits changes and deletions of namespaces to those of the
// operator. It may make any: there is nothing in a new one.
func (o FencedOperator) ownNamespaces() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || request.operation == 'CREATE' || oldObject.metadata.name in %s || %s",
			celResourceIn("namespaces"), celStringList(o.namespaces...), celHasLabel("oldObject", operatorv1.LabelOperatedBy, o.name)),
		MessageExpression: fmt.Sprintf("'the operator %s may not change or delete namespace \"' + oldObject.metadata.name + '\"; to allow it, "+
			"label the namespace %s=%s'", o.name, operatorv1.LabelOperatedBy, o.name),
	}
}

// protectedLabels keeps the operator from making a namespace one of its own, from giving
// it to the other operator, and from letting pods do more there.
func (o FencedOperator) protectedLabels() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || request.operation != 'UPDATE' || (%s) && ((%s) && (%s) || object.metadata.name in %s && %s)",
			celResourceIn("namespaces"), celLabelUnchanged(podSecurityLabel), celLabelUnchanged(operatorv1.LabelOperatedBy), celLabelUnchanged(operatorv1.LabelAddOnNamespace),
			celStringList(o.namespaces...), celHasLabel("object", operatorv1.LabelOperatedBy, o.name)),
		Message: fmt.Sprintf("the operator %s may not change the labels %s, %s and %s of a namespace",
			o.name, operatorv1.LabelOperatedBy, operatorv1.LabelAddOnNamespace, podSecurityLabel),
	}
}

// noTokens bars Secrets that Kubernetes would put a token into, or take for one.
func noTokens() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || request.operation == 'DELETE' || !(object.type in %s)",
			celResourceIn("secrets"), celStringList(string(corev1.SecretTypeServiceAccountToken), string(bootstrapapi.SecretTypeBootstrapToken))),
		Message: "an operator may not create Secrets with ServiceAccount tokens or bootstrap tokens",
	}
}

// ownAccounts bars pods that run as an account which is not the operator's to
// give.
func (o FencedOperator) ownAccounts() admissionv1.Validation {
	identity := fmt.Sprintf("has(variables.pod.serviceAccountName) && [variables.pod.serviceAccountName].all(account, %s)", o.account)
	message := fmt.Sprintf("the operator %s may not run pods as this ServiceAccount", o.name)
	if o.account == "" {
		identity = "has(variables.pod.automountServiceAccountToken) && !variables.pod.automountServiceAccountToken && " +
			"(!has(variables.pod.volumes) || variables.pod.volumes.all(v, !has(v.projected)))"
		message = fmt.Sprintf("the operator %s may not run pods with a token of a ServiceAccount", o.name)
	}
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || request.operation == 'DELETE' || %s", celResourceIn(o.workloads...), identity),
		Message:    message,
	}
}

// noHost bars pods that reach the node that they run on, where the tokens of all
// of its pods are.
func (o FencedOperator) noHost() admissionv1.Validation {
	off := func(field string) string { return fmt.Sprintf("(!has(%[1]s) || !%[1]s)", field) }
	const context = "container.securityContext"
	confined := func(containers string) string {
		return fmt.Sprintf("%s.all(container, has(%[2]s) && %[3]s && has(%[2]s.allowPrivilegeEscalation) && !%[2]s.allowPrivilegeEscalation)",
			containers, context, off(context+".privileged"))
	}
	conditions := []string{
		off("variables.pod.hostNetwork"), off("variables.pod.hostPID"), off("variables.pod.hostIPC"),
		"(!has(variables.pod.volumes) || variables.pod.volumes.all(v, has(v.secret) || has(v.configMap) || has(v.emptyDir) || has(v.projected) || has(v.downwardAPI)))",
		confined("variables.pod.containers"),
		"(!has(variables.pod.initContainers) || " + confined("variables.pod.initContainers") + ")",
	}
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || request.operation == 'DELETE' || %s", celResourceIn(o.workloads...), strings.Join(conditions, " && ")),
		Message:    "an operator may not run pods with access to their node: host namespaces, volumes of the node, or containers that are privileged or allow privilege escalation",
	}
}
