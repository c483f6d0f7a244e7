// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/render"
)

// GuardName is the name of the guard of ClusterConnections and of its binding.
const GuardName = "capstan-guard-clusterconnections"

// registrationControllerAccount is the ServiceAccount of the registration
// controller.
const registrationControllerAccount = "registration-controller-sa"

// Guard returns the admission policy that keeps everybody but the aggregated API
// server and the registration controller from what the Cluster API stores in a
// ClusterConnection: the intent there becomes a change of the ManagedCluster,
// which whoever writes ClusterConnections need not be allowed to make.
func Guard(h Hub) []render.Object {
	m := h.meta(GuardName).In("")
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
