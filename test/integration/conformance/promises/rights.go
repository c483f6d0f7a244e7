// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func rightsCases() []TestCase {
	return []TestCase{
		{Name: "an agent may access its own cluster's objects on the hub, and nothing of another cluster", Run: Rights},
	}
}

// identity is who the agent is on the hub: the subject of its certificate, or
// the push agent's account.
func (s *Scene) identity() authorizationv1.SubjectAccessReviewSpec {
	s.Helper()
	if s.Mode == installation.ModePush {
		return env.ServiceAccountReview(operatorv1.DefaultHubNamespace, fleetv1alpha1.PushAgentServiceAccount)
	}
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := s.Hub.Client.List(s.Context(), requests, client.MatchingLabels{clusterv1.LabelClusterName: s.ClusterName()}); err != nil {
		s.Fatal(err)
	}
	if len(requests.Items) == 0 {
		s.Fatal("the cluster has no certificate request")
	}
	block, _ := pem.Decode(requests.Items[0].Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		s.Fatal(err)
	}
	return authorizationv1.SubjectAccessReviewSpec{User: request.Subject.CommonName, Groups: request.Subject.Organization}
}

// rule is the right to do one thing, to the object of a name if there is one.
func rule(group, resource, name, verb string) rbacv1.PolicyRule {
	made := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
	if name != "" {
		made.ResourceNames = []string{name}
	}
	return made
}

// Rights compares what the agent may do for its cluster and for another one,
// which is accepted and has an agent of its own.
func Rights(s *Scene) {
	agent, other := s.identity(), "other-"+s.ClusterName()
	s.Hub.ApplyText(s, fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %s, annotations: {%s: agent}}
spec: {hubAcceptsClient: true}`, other, clusterv1.AnnotationAgents))
	neighbour := agent
	neighbour.User, neighbour.Groups = clusterv1.UserPrefix+other+":agent", []string{clusterv1.UserPrefix + other, clusterv1.GroupManagedClusters}
	inNamespace := []rbacv1.PolicyRule{
		rule(workv1.GroupVersion.Group, "manifestworks", "", "list"),
		rule(workv1.GroupVersion.Group, "manifestworks/status", "", "patch"),
		rule("coordination.k8s.io", "leases", clusterv1.LeaseName, "update"),
	}
	status := func(cluster string) rbacv1.PolicyRule {
		return rule(clusterv1.GroupVersion.Group, "managedclusters/status", cluster, "patch")
	}
	may := func(who authorizationv1.SubjectAccessReviewSpec, namespace string, right rbacv1.PolicyRule, want bool) {
		s.Helper()
		env.WaitAllowed(s.Context(), s, s.Hub.Config, who, namespace, right, want)
	}
	for _, right := range inNamespace {
		may(agent, s.ClusterName(), right, true)
		may(neighbour, other, right, true) // so its namespace has all that there will be
		may(agent, other, right, false)
	}
	may(agent, "", status(s.ClusterName()), true)
	may(neighbour, "", status(other), true)
	may(agent, "", status(other), false)
	for _, secrets := range []string{s.ClusterName(), other, operatorv1.DefaultHubNamespace, metav1.NamespaceSystem} {
		may(agent, secrets, rule("", "secrets", "", "list"), false)
	}
	may(agent, "", rule(clusterv1.RegisterGroup, clusterv1.AcceptResource, s.ClusterName(), "update"), false)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: other}}
	if err := s.Hub.Client.Delete(s.Context(), mc); err != nil {
		s.Error(err)
	}
}
