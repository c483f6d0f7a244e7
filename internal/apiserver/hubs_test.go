// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
	"github.com/capstan-io/capstan/internal/testing/env"
)

var (
	// servers end the hubs once all tests have run.
	servers = env.NewServers()

	// clusterHubs are those with Clusters: one for all tests, each of which has Clusters of its own.
	clusterHubs = env.NewFixtures(servers, func(t testing.TB) *aggregated.Hub {
		t.Helper()
		h := aggregated.StartHub(t, definitions)
		createPushedSecrets(t, h, v1alpha1.SecretsNamespace)
		grantSecrets(t, h, v1alpha1.SecretsNamespace)
		return h
	})

	// waitingHubs are those with Clusters whose Secrets do not exist yet.
	waitingHubs = env.NewFixtures(servers, func(t testing.TB) *aggregated.Hub {
		t.Helper()
		h := aggregated.StartHub(t, definitions)
		h.CreateObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SecretsNamespace}})
		grantSecrets(t, h, v1alpha1.SecretsNamespace)
		return h
	})

	// workHubs are those with Works of members m1 and m2.
	workHubs = env.NewFixtures(servers, func(t testing.TB) *aggregated.Hub {
		t.Helper()
		h := aggregated.StartHub(t, definitions)
		for _, name := range []string{"m1", "m2", "karmada-es-m1"} {
			h.CreateObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return h
	})
)

const definitions = "../../config/crd"

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

func readSecrets() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
}

// grantSecrets lets the server read the Secrets of a namespace.
func grantSecrets(t testing.TB, h *aggregated.Hub, namespace string) {
	t.Helper()
	h.GrantUser(t, aggregated.ServerUser, namespace, readSecrets())
	env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(aggregated.ServerUser), namespace, readSecrets(), true)
}

// createPushedSecrets creates a namespace with the Secrets of a Cluster that is pushed to.
func createPushedSecrets(t testing.TB, h *aggregated.Hub, namespace string) {
	t.Helper()
	h.CreateObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	h.CreateObject(t, aggregated.NewSecret(namespace, "pushed", map[string]string{"token": "t1", "caBundle": "ca", "more": "never copied"}))
	h.CreateObject(t, aggregated.NewSecret(namespace, "pushed-impersonator", map[string]string{"token": "t2"}))
}
