// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karmadactl joins members as karmadactl does, with its requests, and lets them go.
package karmadactl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/integration/setup/harness"
)

// Karmadactl does with a member what karmadactl does, by the same requests.
type Karmadactl struct {
	hub    *harness.Cluster
	member *harness.Cluster
	// clients of the hub and of the member know the types that are sent.
	onHub, OnMember client.Client
	// name is that of the cluster, account that of the hub's account in it, and role that of
	// its role.
	name, account, Role string
}

// NewKarmadactl returns karmadactl for a hub and a member.
func NewKarmadactl(t testing.TB, hub, member *harness.Cluster) *Karmadactl {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		karmadav1alpha1.AddToScheme(scheme), workv1.AddToScheme(scheme)))
	k := &Karmadactl{hub: hub, member: member, name: "joined", account: "karmada-joined", Role: "karmada-controller-manager:karmada-joined"}
	var err error
	k.onHub, err = client.New(hub.AdminConfig, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	k.OnMember, err = client.New(member.AdminConfig, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	return k
}

// systems are the labels of what it makes.
func systems() map[string]string { return map[string]string{"karmada.io/system": "true"} }

// Of returns the metadata of what it makes in the namespace for Secrets; of what has no
// namespace for "".
func Of(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: systems()}
}

// EnsureObjects creates what is not there.
func EnsureObjects(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// JoinMember makes two accounts in the member, of which that of the hub may do what the rules say,
// gives their tokens to the hub, and creates the Cluster.
func (k *Karmadactl) JoinMember(t testing.TB, rules []rbacv1.PolicyRule) {
	t.Helper()
	const namespace, impersonator = karmadav1alpha1.SecretsNamespace, "karmada-impersonator"
	system := &corev1.Namespace{}
	expect.NoError(t, k.OnMember.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	EnsureObjects(t, k.OnMember,
		&corev1.Namespace{ObjectMeta: Of("", namespace)},
		&corev1.ServiceAccount{ObjectMeta: Of(namespace, impersonator)}, &corev1.ServiceAccount{ObjectMeta: Of(namespace, k.account)},
		&rbacv1.ClusterRole{ObjectMeta: Of("", k.Role), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: Of("", k.Role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: k.Role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: k.account}},
		})

	expect.NoError(t, k.onHub.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})) // it is there
	secrets := []*corev1.Secret{
		{ObjectMeta: Of(namespace, k.name+"-impersonator"), Data: map[string][]byte{"token": k.RequestToken(t, impersonator)}},
		{ObjectMeta: Of(namespace, k.name), Data: map[string][]byte{"token": k.RequestToken(t, k.account), "caBundle": k.member.AdminConfig.CAData}},
	}
	cluster := &karmadav1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: k.name}, Spec: karmadav1alpha1.ClusterSpec{
		SyncMode: karmadav1alpha1.Push, APIEndpoint: k.member.AdminConfig.Host, ID: string(system.UID),
		ImpersonatorSecretRef: &karmadav1alpha1.LocalSecretReference{Namespace: namespace, Name: secrets[0].Name},
		SecretRef:             &karmadav1alpha1.LocalSecretReference{Namespace: namespace, Name: secrets[1].Name},
	}}
	EnsureObjects(t, k.onHub, secrets[0], secrets[1])
	expect.NoError(t, k.onHub.Create(t.Context(), cluster))
	owner := metav1.NewControllerRef(cluster, karmadav1alpha1.GroupVersion.WithKind("Cluster"))
	for _, secret := range secrets {
		before := secret.DeepCopy()
		secret.OwnerReferences = []metav1.OwnerReference{*owner}
		expect.NoError(t, k.onHub.Patch(t.Context(), secret, client.MergeFrom(before)))
	}
}

// RequestToken returns one of an account of the member. Nobody fills Secrets with them here.
func (k *Karmadactl) RequestToken(t testing.TB, account string) []byte {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	expect.NoError(t, k.OnMember.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: Of(karmadav1alpha1.SecretsNamespace, account)}, request))
	return []byte(request.Status.Token)
}

// UnjoinMember deletes the Cluster, and waits until it is gone.
func (k *Karmadactl) UnjoinMember(t testing.TB) {
	t.Helper()
	cluster := &karmadav1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: k.name}}
	expect.NoError(t, k.onHub.Delete(t.Context(), cluster))
	k.hub.Eventually(t, "the Cluster is gone", func(ctx context.Context) error {
		err := k.onHub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		if err == nil {
			return fmt.Errorf("it is there: %+v", cluster.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
	k.hub.IsGone(t, &clusterv1.ManagedCluster{}, client.ObjectKeyFromObject(cluster))
	k.CollectGarbage(t)
}

// CollectGarbage deletes the Secrets with their owner, as the hub's controller manager does.
func (k *Karmadactl) CollectGarbage(t testing.TB) {
	t.Helper()
	expect.NoError(t, k.onHub.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(karmadav1alpha1.SecretsNamespace), client.MatchingLabels(systems())))
}

// IsReady waits until the Cluster is ready or not, for a reason and with a text.
func (k *Karmadactl) IsReady(t testing.TB, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	k.hub.Eventually(t, fmt.Sprintf("Ready of the Cluster is %s: %s", status, reason), func(ctx context.Context) error {
		cluster := &karmadav1alpha1.Cluster{}
		if err := k.onHub.Get(ctx, client.ObjectKey{Name: k.name}, cluster); err != nil {
			return err
		}
		said := meta.FindStatusCondition(cluster.Status.Conditions, karmadav1alpha1.ClusterConditionReady)
		if said == nil || said.Status != status || said.Reason != reason || !strings.Contains(said.Message, text) {
			return fmt.Errorf("it is %+v", said)
		}
		return nil
	})
}

// DeliversWork sends a ClusterRole to the cluster.
func (k *Karmadactl) DeliversWork(t testing.TB, name string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, name)
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.name, Name: name, Finalizers: []string{workv1.FinalizerManifestWorkCleanup}},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}},
		}},
	}
	k.hub.Eventually(t, "the hub's webhooks accept work "+name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(k.onHub.Create(ctx, work.DeepCopy()))
	})
}
