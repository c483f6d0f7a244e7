// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// ConnectionGuardName is the name of the guard of ClusterConnections and of its binding.
const ConnectionGuardName = "capstan-guard-clusterconnections"

// registrationControllerAccount is the ServiceAccount of the registration
// controller.
const registrationControllerAccount = "registration-controller-sa"

// componentUser is CEL for the user that a component of the hub is, by its ServiceAccount.
func componentUser(h Hub, account string) string {
	return fmt.Sprintf("'system:serviceaccount:%s:%s'", h.Namespace(), account)
}

// ConnectionGuard returns the admission policy that keeps everybody but the aggregated API
// server and the registration controller from what the Cluster API stores in a
// ClusterConnection: the intent there becomes a change of the ManagedCluster,
// which whoever writes ClusterConnections need not be allowed to make. It also has
// those who change where the token of a cluster is sent be allowed to read that
// token; for writes to Clusters the aggregated API server asks the same. And it bounds what
// agents report there. Which Secrets a Cluster waits for only the aggregated API server
// says, which has reviewed who may read them, and copies them by that: the registration
// controller may drop that, with the mirror of an earlier ManagedCluster.
func ConnectionGuard(h Hub) []render.Object {
	m := h.resourceMeta(ConnectionGuardName).InNamespace("")
	var unchanged, awaited []string
	for _, field := range []string{"apiEndpoint", "secretRef", "insecureSkipTLSVerification", "proxyURL", "proxyHeader"} {
		unchanged = append(unchanged, fmt.Sprintf("object.?spec.?%[1]s == oldObject.?spec.?%[1]s", field))
	}
	for _, field := range []string{"awaitedSecrets", "secretRef", "impersonatorSecretRef", "uid"} {
		awaited = append(awaited, fmt.Sprintf("object.?cluster.?%[1]s == oldObject.?cluster.?%[1]s", field))
	}
	return render.AdmissionPolicy(m, admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(render.AdmissionRule(
			fleetv1alpha1.GroupName, []string{"clusterconnections", "clusterconnections/status"}, admissionv1.Create, admissionv1.Update))).
		WithMatchConditions(admissionv1ac.MatchCondition().WithName("others").WithExpression(fmt.Sprintf(
			"request.userInfo.username != %s", componentUser(h, APIServerAccount)))).
		WithVariables(
			admissionv1ac.Variable().WithName("mirrors").WithExpression(
				"request.userInfo.username == "+componentUser(h, registrationControllerAccount)),
			admissionv1ac.Variable().WithName("secret").WithExpression(fmt.Sprintf(
				"object.?spec.?secretRef.?name.orValue('%s')", fleetv1alpha1.DefaultSecretName)),
			admissionv1ac.Variable().WithName("connectsAsBefore").WithExpression("oldObject != null && "+strings.Join(unchanged, " && "))).
		WithValidations(
			admissionv1ac.Validation().
				WithExpression("variables.mirrors || (oldObject == null ? !has(object.cluster) : has(object.cluster) == has(oldObject.cluster) && "+
					"(!has(object.cluster) || object.cluster == oldObject.cluster))").
				WithMessage("the field cluster is written by the hub's aggregated API server and registration controller only: "+
					"change the Cluster or the ManagedCluster instead"),
			admissionv1ac.Validation().
				WithExpression("!object.?cluster.?awaitedSecrets.hasValue() || oldObject != null && "+strings.Join(awaited, " && ")).
				WithMessage("which Secrets are copied to a cluster (cluster.awaitedSecrets) is written by the hub's aggregated API server only: "+
					"change the Cluster instead"),
			admissionv1ac.Validation().
				WithExpression("variables.mirrors || object.?spec.?apiEndpoint.orValue('') == '' || variables.connectsAsBefore || "+
					"authorizer.group('').resource('secrets').namespace(object.metadata.name).name(variables.secret).check('get').allowed()").
				WithReason("Forbidden").
				WithMessageExpression("'how the hub connects to the cluster decides who gets its token: this change requires to be allowed to get the Secret ' + "+
					"object.metadata.name + '/' + variables.secret")).
		WithValidations(sizesOfReport(h)...))
}
