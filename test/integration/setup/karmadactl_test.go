// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/env"
	controlplane "github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// dedicate gives the hub what the operator of dedicated hubs puts into a new one. The Cluster
// API may read Secrets by that, and by nothing else.
func (c *cluster) dedicate(t *testing.T) {
	t.Helper()
	objects, err := controlplane.HubObjects(controlplane.Plane{Name: operatorv1.DefaultHubNamespace, Namespace: "host"}, c.config.CAData)
	must(t, err)
	_, err = render.NewApplier(c.client, c.client, fleetv1alpha1.ControlPlaneOperator).Apply(t.Context(), objects...)
	must(t, err)
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	server := env.ServiceAccountReview(operatorv1.DefaultHubNamespace, fleetv1alpha1.APIServerServiceAccount)
	env.WaitAllowed(t.Context(), t, c.config, server, karmadav1alpha1.SecretsNamespace, read, true)
}

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

// samples applies files on a hub that has just been dedicated, one of them with the Secret
// after the Cluster.
func (c *cluster) samples(t *testing.T) {
	apply := func(documents ...string) error {
		file := filepath.Join(t.TempDir(), "sample.yaml")
		must(t, os.WriteFile(file, []byte(strings.Join(documents, "---")), 0o600))
		_, err := c.kubectl(t.Context(), "apply", "-f", file)
		return err
	}
	leave := func() {
		_, err := c.kubectl(t.Context(), "delete", "cluster", "sample", "--timeout=2m")
		must(t, err)
	}
	must(t, apply(sampleCluster, sampleSecret)) // the Cluster waits for the Secret
	copied := &corev1.Secret{}
	c.until(t, "the Secret is copied", func(ctx context.Context) error {
		return c.client.Get(ctx, client.ObjectKey{Namespace: "sample", Name: fleetv1alpha1.DefaultSecretName}, copied)
	})
	if string(copied.Data[fleetv1alpha1.SecretKeyToken]) != "none" {
		t.Errorf("the copy of the Secret has the keys %v", slices.Collect(maps.Keys(copied.Data)))
	}
	leave()
	must(t, c.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: karmadav1alpha1.SecretsNamespace, Name: "of-sample"}}))
	must(t, apply(sampleSecret, sampleCluster))
	leave()
}

// karmadactl does with a member what karmadactl does, by the same requests.
type karmadactl struct {
	hub    *cluster
	member *cluster
	// clients of the hub and of the member know the types that are sent.
	onHub, onMember client.Client
	// name is that of the cluster, account that of the hub's account in it, and role that of
	// its role.
	name, account, role string
}

func newKarmadactl(t *testing.T, hub, member *cluster) *karmadactl {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		karmadav1alpha1.AddToScheme(scheme), workv1.AddToScheme(scheme)))
	k := &karmadactl{hub: hub, member: member, name: "joined", account: "karmada-joined", role: "karmada-controller-manager:karmada-joined"}
	var err error
	k.onHub, err = client.New(hub.config, client.Options{Scheme: scheme})
	must(t, err)
	k.onMember, err = client.New(member.config, client.Options{Scheme: scheme})
	must(t, err)
	return k
}

// systems are the labels of what it makes.
func systems() map[string]string { return map[string]string{"karmada.io/system": "true"} }

// of returns the metadata of what it makes in the namespace for Secrets; of what has no
// namespace for "".
func of(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: systems()}
}

// ensure creates what is not there.
func ensure(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// everything is what the hub's account may do in a member.
func everything() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	}
}

// join makes two accounts in the member, of which that of the hub may do what the rules say,
// gives their tokens to the hub, and creates the Cluster.
func (k *karmadactl) join(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	const namespace, impersonator = karmadav1alpha1.SecretsNamespace, "karmada-impersonator"
	system := &corev1.Namespace{}
	must(t, k.onMember.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	ensure(t, k.onMember,
		&corev1.Namespace{ObjectMeta: of("", namespace)},
		&corev1.ServiceAccount{ObjectMeta: of(namespace, impersonator)}, &corev1.ServiceAccount{ObjectMeta: of(namespace, k.account)},
		&rbacv1.ClusterRole{ObjectMeta: of("", k.role), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: of("", k.role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: k.role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: k.account}},
		})

	must(t, k.onHub.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})) // it is there
	secrets := []*corev1.Secret{
		{ObjectMeta: of(namespace, k.name+"-impersonator"), Data: map[string][]byte{"token": k.token(t, impersonator)}},
		{ObjectMeta: of(namespace, k.name), Data: map[string][]byte{"token": k.token(t, k.account), "caBundle": k.member.config.CAData}},
	}
	cluster := &karmadav1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: k.name}, Spec: karmadav1alpha1.ClusterSpec{
		SyncMode: karmadav1alpha1.Push, APIEndpoint: k.member.config.Host, ID: string(system.UID),
		ImpersonatorSecretRef: &karmadav1alpha1.LocalSecretReference{Namespace: namespace, Name: secrets[0].Name},
		SecretRef:             &karmadav1alpha1.LocalSecretReference{Namespace: namespace, Name: secrets[1].Name},
	}}
	ensure(t, k.onHub, secrets[0], secrets[1])
	must(t, k.onHub.Create(t.Context(), cluster))
	owner := metav1.NewControllerRef(cluster, karmadav1alpha1.GroupVersion.WithKind("Cluster"))
	for _, secret := range secrets {
		before := secret.DeepCopy()
		secret.OwnerReferences = []metav1.OwnerReference{*owner}
		must(t, k.onHub.Patch(t.Context(), secret, client.MergeFrom(before)))
	}
}

// token returns one of an account of the member. Nobody fills Secrets with them here.
func (k *karmadactl) token(t *testing.T, account string) []byte {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	must(t, k.onMember.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: of(karmadav1alpha1.SecretsNamespace, account)}, request))
	return []byte(request.Status.Token)
}

// unjoin deletes the Cluster, and waits until it is gone.
func (k *karmadactl) unjoin(t *testing.T) {
	t.Helper()
	cluster := &karmadav1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: k.name}}
	must(t, k.onHub.Delete(t.Context(), cluster))
	k.hub.until(t, "the Cluster is gone", func(ctx context.Context) error {
		err := k.onHub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		if err == nil {
			return fmt.Errorf("it is there: %+v", cluster.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
	k.hub.gone(t, &clusterv1.ManagedCluster{}, client.ObjectKeyFromObject(cluster))
	k.collect(t)
}

// collect deletes the Secrets with their owner, as the hub's controller manager does.
func (k *karmadactl) collect(t *testing.T) {
	t.Helper()
	must(t, k.onHub.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(karmadav1alpha1.SecretsNamespace), client.MatchingLabels(systems())))
}

// ready waits until the Cluster is ready or not, for a reason and with a text.
func (k *karmadactl) ready(t *testing.T, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	k.hub.until(t, fmt.Sprintf("Ready of the Cluster is %s: %s", status, reason), func(ctx context.Context) error {
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

// work sends a ClusterRole to the cluster.
func (k *karmadactl) work(t *testing.T, name string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, name)
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.name, Name: name, Finalizers: []string{workv1.FinalizerManifestWorkCleanup}},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}},
		}},
	}
	k.hub.until(t, "the hub's webhooks accept work "+name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(k.onHub.Create(ctx, work.DeepCopy()))
	})
}

// joinedByKarmadactl joins a member that has nothing of ours, twice: with an account that may
// not create our definitions, and with the one that karmadactl makes.
func (c *cluster) joinedByKarmadactl(t *testing.T, p *programs) {
	k := newKarmadactl(t, c, newCluster(t))
	p.runWorkWebhook(t)
	p.runPushAgent(t)

	k.join(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}})
	k.ready(t, metav1.ConditionFalse, karmadav1alpha1.ClusterReasonNotReady, "let it create customresourcedefinitions")
	k.work(t, "never")
	k.unjoin(t)

	must(t, k.onMember.Delete(t.Context(), &rbacv1.ClusterRole{ObjectMeta: of("", k.role)}))
	k.join(t, everything())
	k.ready(t, metav1.ConditionTrue, karmadav1alpha1.ClusterReasonReady, "")
	k.work(t, "hello")
	c.until(t, "the work is delivered", func(ctx context.Context) error {
		return k.onMember.Get(ctx, client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{})
	})
	k.unjoin(t)
	if err := k.onMember.Get(t.Context(), client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was delivered is still in the member: %v", err)
	}
}
