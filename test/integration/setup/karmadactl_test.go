// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/integration/setup/harness"
	"github.com/capstan-io/capstan/test/integration/setup/karmadactl"
	"github.com/capstan-io/capstan/test/integration/setup/programs"
)

// What Karmada's users have in files: a Cluster, and the Secret that it names.
const (
	sampleCluster = `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: sample, namespace: karmada-cluster}
spec:
  syncMode: Push
  apiEndpoint: https://sample.example.com:6443
  secretRef: {namespace: karmada-cluster, name: of-sample}
  provider: acme
  region: here
  zone: a
`
	sampleSecret = `
apiVersion: v1
kind: Secret
metadata: {name: of-sample, namespace: karmada-cluster}
type: Opaque
stringData: {token: none, caBundle: none}
`
)

// testSamplesOfKarmada applies files on a hub that has just been dedicated, one of them with the Secret
// after the Cluster.
func testSamplesOfKarmada(t *testing.T, c *harness.Cluster) {
	apply := func(documents ...string) error {
		file := filepath.Join(t.TempDir(), "sample.yaml")
		expect.NoError(t, os.WriteFile(file, []byte(strings.Join(documents, "---")), 0o600))
		_, err := c.RunKubectl(t.Context(), "apply", "-f", file)
		return err
	}
	leave := func() {
		_, err := c.RunKubectl(t.Context(), "delete", "cluster", "sample", "--timeout=2m")
		expect.NoError(t, err)
	}
	expect.NoError(t, apply(sampleCluster, sampleSecret)) // the Cluster waits for the Secret
	copied := &corev1.Secret{}
	c.Eventually(t, "the Secret is copied", func(ctx context.Context) error {
		return c.Client.Get(ctx, client.ObjectKey{Namespace: "sample", Name: fleetv1alpha1.DefaultSecretName}, copied)
	})
	if string(copied.Data[fleetv1alpha1.SecretKeyToken]) != "none" {
		t.Errorf("the copy of the Secret has the keys %v", slices.Collect(maps.Keys(copied.Data)))
	}
	leave()
	expect.NoError(t, c.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: karmadav1alpha1.SecretsNamespace, Name: "of-sample"}}))
	expect.NoError(t, apply(sampleSecret, sampleCluster))
	leave()
}

// everything is what the hub's account may do in a member.
func everything() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	}
}

// testKarmadactl joins a member that has nothing of ours, twice: with an account that may
// not create our definitions, and with the one that karmadactl makes.
func testKarmadactl(t *testing.T, c *harness.Cluster, p *programs.Programs) {
	k := karmadactl.NewKarmadactl(t, c, harness.NewCluster(t, servers))
	p.RunWorkWebhook(t)
	p.RunPushAgent(t)

	k.JoinMember(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}})
	k.IsReady(t, metav1.ConditionFalse, karmadav1alpha1.ClusterReasonNotReady, "let it create customresourcedefinitions")
	k.DeliversWork(t, "never")
	k.UnjoinMember(t)

	expect.NoError(t, k.OnMember.Delete(t.Context(), &rbacv1.ClusterRole{ObjectMeta: karmadactl.Of("", k.Role)}))
	k.JoinMember(t, everything())
	k.IsReady(t, metav1.ConditionTrue, karmadav1alpha1.ClusterReasonReady, "")
	k.DeliversWork(t, "hello")
	c.Eventually(t, "the work is delivered", func(ctx context.Context) error {
		return k.OnMember.Get(ctx, client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{})
	})
	k.UnjoinMember(t)
	if err := k.OnMember.Get(t.Context(), client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was delivered is still in the member: %v", err)
	}
}
