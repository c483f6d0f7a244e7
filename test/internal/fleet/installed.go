// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

func bootstrapRole() []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: bootstrapUser}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: bootstrapUser},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bootstrapUser},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: bootstrapUser}},
		},
	}
}

// webhooks are those of the operator, with addresses on this machine.
func webhooks(host net.IP, ca []byte) []client.Object {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	address := func(port int, path string) admissionregistrationv1.WebhookClientConfig {
		target := fmt.Sprintf("https://%s:%d%s", host, port, path)
		return admissionregistrationv1.WebhookClientConfig{URL: &target, CABundle: ca}
	}
	rule := func(group, version, resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		}}
	}
	clusters := rule("cluster.open-cluster-management.io", "v1", "managedclusters", admissionregistrationv1.Create, admissionregistrationv1.Update)
	works := rule("work.open-cluster-management.io", "v1", "manifestworks", admissionregistrationv1.Create, admissionregistrationv1.Update)
	mutating := func(name string, config admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{Name: name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}}
	}
	validating := func(name string, config admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{Name: name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}}
	}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				mutating("cluster.bench.capstan.io", address(registrationWebhookPort, "/mutate-cluster-open-cluster-management-io-v1-managedcluster"), clusters),
				mutating("work.bench.capstan.io", address(workWebhookPort, "/mutate-work-open-cluster-management-io-v1-manifestwork"),
					rule("work.open-cluster-management.io", "v1", "manifestworks", admissionregistrationv1.Create)),
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				validating("cluster.bench.capstan.io", address(registrationWebhookPort, "/validate-cluster-open-cluster-management-io-v1-managedcluster"), clusters),
				validating("work.bench.capstan.io", address(workWebhookPort, "/validate-work-open-cluster-management-io-v1-manifestwork"), works),
			},
		},
	}
}
