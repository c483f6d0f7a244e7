// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAClusterThatJoinsWithoutDefinitions joins as other clients of the API do: they
// write a credential and the cluster, and leave nothing of ours in the member. The
// account may not create definitions at first.
func TestAClusterThatJoinsWithoutDefinitions(t *testing.T) {
	w := newWorld(t)
	token := w.account(t, "joined", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	w.register(t, "member1", token)
	w.connection(t, "member1", metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing,
		"may not create it (403)", "let it create customresourcedefinitions", `"capstan join"`)

	// It leaves although its works have finalizers, of which no agent will ever take care.
	never := build.ManifestWork("member1", "never", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"never"}}`)
	never.Finalizers = []string{workv1.FinalizerManifestWorkCleanup}
	cluster.CreateObjects(t, w.hub.client, never)
	w.leaves(t, "member1")

	// With the right to do so the agent creates them, and delivers.
	w.register(t, "member1", token)
	w.connection(t, "member1", metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing)
	w.bind(t, "joined", "cluster-admin")
	w.connection(t, "member1", metav1.ConditionTrue, fleetv1alpha1.ClusterConnectionReasonConnected)
	definitions, err := config.SpokeCRDs()
	expect.NoError(t, err)
	for _, definition := range definitions {
		live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
		expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKey{Name: definition.Name}, live))
		if _, labelled := live.Labels[fleetv1alpha1.LabelPushCluster]; !labelled {
			t.Errorf("definition %s has labels %v: \"capstan unjoin\" would not find it", live.Name, live.Labels)
		}
	}
	w.delivers(t, "member1", "hello")
	w.leaves(t, "member1")
	if err := w.member.client.Get(t.Context(), client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was delivered is still in the member: %v", err)
	}
}

// account makes a ServiceAccount of the member that may do what the rules say, and
// returns a token of it.
func (w *world) account(t *testing.T, name string, rules ...rbacv1.PolicyRule) (token string) {
	t.Helper()
	token = cluster.CreateAccount(t, w.member.client, metav1.NamespaceDefault, name)
	cluster.CreateObjects(t, w.member.client, build.ClusterRole(name, rules...))
	w.bind(t, name, name)
	return token
}

// bind gives a ServiceAccount of the member a ClusterRole.
func (w *world) bind(t *testing.T, account, role string) {
	t.Helper()
	cluster.CreateObjects(t, w.member.client, build.ClusterRoleBinding(account+":"+role, role, build.AccountSubject(metav1.NamespaceDefault, account)))
}

// register writes what a client of the API writes for a Push cluster.
func (w *world) register(t *testing.T, name, token string) {
	t.Helper()
	expect.NoError(t, w.hub.client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: w.member.config.Host},
	}))
	expect.NoError(t, w.hub.client.Create(t.Context(), &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}))
	expect.NothingWrong(t, patience, "the credential of "+name+" is written", func() string {
		err := w.hub.client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleetv1alpha1.DefaultSecretName},
			Data:       map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(token), fleetv1alpha1.SecretKeyCABundle: w.member.config.CAData},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) { // the namespace stays when a cluster leaves
			return err.Error()
		}
		return ""
	})
}

// connection waits until a cluster is connected or says why not, with parts of the message.
func (w *world) connection(t *testing.T, name string, status metav1.ConditionStatus, reason string, parts ...string) {
	t.Helper()
	expect.NothingWrong(t, patience, fmt.Sprintf("Connected of %s is %s for reason %s", name, status, reason), func() string {
		found := &fleetv1alpha1.ClusterConnection{}
		if err := w.hub.client.Get(t.Context(), client.ObjectKey{Name: name}, found); err != nil {
			return err.Error()
		}
		said := meta.FindStatusCondition(found.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected)
		if said == nil || said.Status != status || said.Reason != reason {
			return fmt.Sprintf("it is %+v", said)
		}
		for _, part := range parts {
			if !strings.Contains(said.Message, part) {
				t.Fatalf("message %q lacks %q", said.Message, part)
			}
		}
		return ""
	})
}

// leaves deletes a cluster, and waits until it is gone.
func (w *world) leaves(t *testing.T, name string) {
	t.Helper()
	mc, connection := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	expect.NoError(t, w.hub.client.Delete(t.Context(), mc))
	expect.NothingWrong(t, patience, "cluster "+name+" is gone", func() string {
		for _, object := range []client.Object{mc, connection} {
			if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("there is %T %+v: %v", object, object, err)
			}
		}
		return ""
	})
}
