// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/render"
)

// ConnectionGuardName is the name of the guard of ClusterConnections and of its binding.
const ConnectionGuardName = "capstan-guard-clusterconnections"

// registrationControllerAccount is the ServiceAccount of the registration
// controller.
const registrationControllerAccount = "registration-controller-sa"

// ConnectionGuard returns the admission policy that keeps everybody but the aggregated API
// server and the registration controller from what the Cluster API stores in a
// ClusterConnection: the intent there becomes a change of the ManagedCluster,
// which whoever writes ClusterConnections need not be allowed to make.
func ConnectionGuard(h Hub) []render.Object {
	m := h.meta(ConnectionGuardName).In("")
	user := func(account string) string {
		return fmt.Sprintf("'system:serviceaccount:%s:%s'", h.Namespace(), account)
	}
	return []render.Object{
		admissionv1ac.ValidatingAdmissionPolicy(m.Name).WithLabels(m.Labels).WithSpec(admissionv1ac.ValidatingAdmissionPolicySpec().
			WithFailurePolicy(admissionv1.Fail).
			WithMatchConstraints(admissionv1ac.MatchResources().
				WithMatchPolicy(admissionv1.Equivalent).
				WithNamespaceSelector(metav1ac.LabelSelector()).
				WithObjectSelector(metav1ac.LabelSelector()).
				WithResourceRules(admissionv1ac.NamedRuleWithOperations().
					WithOperations(admissionv1.Create, admissionv1.Update).
					WithAPIGroups(fleetv1alpha1.GroupName).WithAPIVersions("*").WithResources("clusterconnections").
					WithScope(admissionv1.AllScopes))).
			WithMatchConditions(admissionv1ac.MatchCondition().WithName("others").WithExpression(fmt.Sprintf(
				"!(request.userInfo.username in [%s, %s])", user(APIServerAccount), user(registrationControllerAccount)))).
			WithValidations(admissionv1ac.Validation().
				WithExpression("oldObject == null ? !has(object.cluster) : has(object.cluster) == has(oldObject.cluster) && " +
					"(!has(object.cluster) || object.cluster == oldObject.cluster)").
				WithMessage("the field cluster is written by the hub's aggregated API server and registration controller only: " +
					"change the Cluster or the ManagedCluster instead"))),
		admissionv1ac.ValidatingAdmissionPolicyBinding(m.Name).WithLabels(m.Labels).WithSpec(admissionv1ac.ValidatingAdmissionPolicyBindingSpec().
			WithPolicyName(m.Name).
			WithValidationActions(admissionv1.Deny)),
	}
}

// ClusterGuardName is the name of the guard of ManagedClusters and of its binding.
const ClusterGuardName = "capstan-guard-managedclusters"

// changedKeys is CEL for the keys of a map of strings in the metadata that are new, gone,
// or have another value.
func changedKeys(of string) string {
	now, before := "object.metadata.?"+of+".orValue({})", "oldObject.metadata.?"+of+".orValue({})"
	return fmt.Sprintf("%[1]s.filter(k, !(k in %[2]s) || %[2]s[k] != %[1]s[k]) + %[2]s.filter(k, !(k in %[1]s))", now, before)
}

// ClusterGuard returns the admission policy that keeps the agents of clusters from what an
// administrator of the hub says in their ManagedClusters: labels, by which policies and
// sets choose what a cluster is sent, but for those that are left to it; taints;
// acceptance; and all else but the addresses of its API server and annotations of its
// own. Status has rights of its own. It repeats agentlabels.Allowed in CEL.
func ClusterGuard(h Hub) []render.Object {
	m := h.meta(ClusterGuardName).In("")
	same := func(field, unset string) string {
		return fmt.Sprintf("object.%[1]s.orValue(%[2]s) == oldObject.%[1]s.orValue(%[2]s)", field, unset)
	}
	validation := func(expression string) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().WithExpression(expression).WithReason("Forbidden")
	}
	// When a taint was added is for the hub's webhook, which stamps it.
	const taints = "spec.?taints.orValue([]).map(t, [t.key, t.?value.orValue(''), t.effect])"
	const set, waits = clusterv1.LabelClusterSet, clusterv1.LabelAwaitingAcceptance
	return []render.Object{
		admissionv1ac.ValidatingAdmissionPolicy(m.Name).WithLabels(m.Labels).WithSpec(admissionv1ac.ValidatingAdmissionPolicySpec().
			WithFailurePolicy(admissionv1.Fail).
			WithMatchConstraints(admissionv1ac.MatchResources().
				WithMatchPolicy(admissionv1.Equivalent).
				WithNamespaceSelector(metav1ac.LabelSelector()).
				WithObjectSelector(metav1ac.LabelSelector()).
				WithResourceRules(admissionv1ac.NamedRuleWithOperations().
					WithOperations(admissionv1.Update).
					WithAPIGroups(clusterv1.GroupName).WithAPIVersions("*").WithResources("managedclusters").
					WithScope(admissionv1.AllScopes))).
			WithMatchConditions(admissionv1ac.MatchCondition().WithName("agents").WithExpression(fmt.Sprintf(
				"'%s' in request.userInfo.?groups.orValue([])", clusterv1.GroupManagedClusters))).
			WithVariables(
				admissionv1ac.Variable().WithName("allowed").WithExpression(fmt.Sprintf(
					"oldObject.metadata.?annotations[?'%s'].orValue('').split(',')", fleetv1alpha1.AnnotationAgentLabels)),
				// What the webhooks of the hub complete is theirs, whoever writes.
				admissionv1ac.Variable().WithName("labels").WithExpression(fmt.Sprintf(
					"(%s).filter(k, !(k == '%s' && !(k in object.metadata.?labels.orValue({}))) && "+
						"!(k == '%s' && oldObject.metadata.?labels[?k].orValue('') == '' && object.metadata.labels[k] == '%s'))",
					changedKeys("labels"), waits, set, clusterv1.DefaultClusterSet)),
				admissionv1ac.Variable().WithName("refused").WithExpression(fmt.Sprintf(
					"variables.labels.filter(k, k == '%s' || !variables.allowed.exists(a, a == k || a == '*' || "+
						"a.endsWith('/*') && k.startsWith(a.substring(0, a.size() - 1))))", set))).
			WithValidations(
				validation("variables.refused.size() == 0").WithMessageExpression(fmt.Sprintf(
					"'the agent of a cluster may not change these labels of its ManagedCluster: ' + variables.refused.join(', ') + "+
						"'. An administrator of the hub changes them, or allows their keys in spec.agentLabels of ClusterConnection \"' + object.metadata.name + "+
						"'\", or for all clusters in the annotation %s of the ClusterManager'", fleetv1alpha1.AnnotationAgentLabels)),
				validation(fmt.Sprintf("object.%[1]s == oldObject.%[1]s", taints)+" && "+same("spec.?hubAcceptsClient", "false")+" && "+same("spec.?leaseDurationSeconds", "0")).
					WithMessage("the agent of a cluster may change nothing in the spec of its ManagedCluster but managedClusterClientConfigs"),
				validation(fmt.Sprintf("(%s).all(k, k.startsWith('agent.open-cluster-management.io/') || k in ['%s', '%s'])",
					changedKeys("annotations"), fleetv1alpha1.AnnotationHubURL, fleetv1alpha1.AnnotationAgentID)).
					WithMessage(fmt.Sprintf("the agent of a cluster may change no annotation of its ManagedCluster but %s, %s and those that begin with "+
						"agent.open-cluster-management.io/", fleetv1alpha1.AnnotationHubURL, fleetv1alpha1.AnnotationAgentID)),
				validation(same("metadata.?finalizers", "[]")+" && "+same("metadata.?ownerReferences", "[]")).
					WithMessage("the agent of a cluster may change neither the finalizers nor the owners of its ManagedCluster"))),
		admissionv1ac.ValidatingAdmissionPolicyBinding(m.Name).WithLabels(m.Labels).WithSpec(admissionv1ac.ValidatingAdmissionPolicyBindingSpec().
			WithPolicyName(m.Name).
			WithValidationActions(admissionv1.Deny)),
	}
}
