// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	operator "github.com/capstan-io/capstan/operators/klusterlet"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
)

// CountRecords counts the records of each agent.
func (l *lab) CountRecords(ctx context.Context) map[string]int {
	l.t.Helper()
	list, count := &workv1.AppliedManifestWorkList{}, map[string]int{}
	expect.NoError(l.t, l.Member.Client.List(ctx, list))
	for i := range list.Items {
		count[list.Items[i].Spec.AgentID]++
	}
	return count
}

// CreateKlusterlet makes a Klusterlet in the member, as if its agent were installed.
func (l *lab) CreateKlusterlet() *operatorv1.Klusterlet {
	l.t.Helper()
	made := &operatorv1.Klusterlet{
		ObjectMeta: metav1.ObjectMeta{Name: "klusterlet", Finalizers: []string{operatorv1.FinalizerKlusterletCleanup}},
		Spec:       operatorv1.KlusterletSpec{ClusterName: Cluster},
	}
	expect.NoError(l.t, l.Member.Client.Create(l.t.Context(), made))
	return made
}

// RemoveKlusterlet deletes the Klusterlet and has its operator remove what it
// installed.
func (l *lab) RemoveKlusterlet(installed *operatorv1.Klusterlet) {
	l.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme,
	} {
		expect.NoError(l.t, add(scheme))
	}
	c, err := client.New(l.Member.Config, client.Options{Scheme: scheme})
	expect.NoError(l.t, err)
	rules, err := operator.LoadAgentRules()
	expect.NoError(l.t, err)
	controller := operator.NewKlusterletController(operator.ControllerDeps{
		Client: c, Live: c, Secrets: c, Results: hubprobe.NewResultStore(), Rules: rules,
		Events: events.NewFakeRecorder(100), Clock: clock.RealClock{},
		Settings: operator.OperatorSettings{Namespace: "open-cluster-management", Image: "capstan:test", Version: "1.2.3"},
	})
	expect.NoError(l.t, c.Delete(l.t.Context(), installed))
	l.Eventually("the Klusterlet to be gone", func(ctx context.Context) string {
		err := c.Get(ctx, client.ObjectKeyFromObject(installed), installed)
		if apierrors.IsNotFound(err) {
			return ""
		}
		expect.NoError(l.t, err)
		_, err = controller.Reconcile(ctx, installed)
		return fmt.Sprintf("the operator says %v", err)
	})
}

// AgentSecret makes the Secret with which the hub reaches the member.
func (l *lab) AgentSecret() *corev1.Secret {
	l.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Cluster, Name: fleetv1alpha1.DefaultSecretName},
		Data: map[string][]byte{
			fleetv1alpha1.SecretKeyToken: l.RequestToken(), fleetv1alpha1.SecretKeyCABundle: l.Member.Config.CAData,
		},
	}
	l.CreateOnHub(secret)
	return secret
}

// IsRenewed waits until the push agent has put another token into the Secret.
func (l *lab) IsRenewed(before *corev1.Secret) {
	l.t.Helper()
	l.Eventually("another token in the Secret", func(ctx context.Context) string {
		now := &corev1.Secret{}
		expect.NoError(l.t, l.Hub.Client.Get(ctx, client.ObjectKeyFromObject(before), now))
		if bytes.Equal(now.Data[fleetv1alpha1.SecretKeyToken], before.Data[fleetv1alpha1.SecretKeyToken]) {
			return "it is the first one"
		}
		return ""
	})
}

// MarksOfObjects are what shows whether somebody wrote an object of a work.
func (l *lab) MarksOfObjects() map[string]string {
	l.t.Helper()
	list := &corev1.ConfigMapList{}
	expect.NoError(l.t, l.Member.Client.List(l.t.Context(), list, client.InNamespace("default"), client.MatchingLabels{workv1.LabelManaged: "true"}))
	marks := map[string]string{}
	for _, item := range list.Items {
		marks[item.Name] = string(item.UID) + "/" + item.ResourceVersion
	}
	return marks
}

// AreOwnedBy waits until there are so many records, and all are of the agent.
func (l *lab) AreOwnedBy(agent string, count int) {
	l.t.Helper()
	l.Eventually(fmt.Sprintf("%d records of the agent %s", count, agent), func(ctx context.Context) string {
		list := &workv1.AppliedManifestWorkList{}
		expect.NoError(l.t, l.Member.Client.List(ctx, list))
		lack := ""
		if len(list.Items) != count {
			lack = fmt.Sprintf("there are %d;", len(list.Items))
		}
		for _, record := range list.Items {
			if record.Spec.AgentID != agent {
				lack += fmt.Sprintf(" %s is of %s;", record.Name, record.Spec.AgentID)
			}
		}
		return lack
	})
}

// IsDelivered waits until the object of a work has the value and the hub knows.
func (l *lab) IsDelivered(name, value string) {
	l.t.Helper()
	l.Eventually("work "+name+" with value "+value, func(ctx context.Context) string {
		object, work := &corev1.ConfigMap{}, &workv1.ManifestWork{}
		if err := l.Member.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, object); err != nil {
			return err.Error()
		}
		expect.NoError(l.t, l.Hub.Client.Get(ctx, client.ObjectKey{Namespace: Cluster, Name: name}, work))
		applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
		if object.Data["value"] != value || applied == nil || applied.Status != metav1.ConditionTrue || applied.ObservedGeneration != work.Generation {
			return fmt.Sprintf("the value is %q, the condition %+v", object.Data["value"], applied)
		}
		return ""
	})
}

// ChangeWork gives the object of a work another value.
func (l *lab) ChangeWork(name, value string) {
	l.t.Helper()
	work := &workv1.ManifestWork{}
	expect.NoError(l.t, l.Hub.Client.Get(l.t.Context(), client.ObjectKey{Namespace: Cluster, Name: name}, work))
	after := work.DeepCopy()
	after.Spec.Workload.Manifests = []workv1.Manifest{Manifest(name, value)}
	expect.NoError(l.t, l.Hub.Client.Patch(l.t.Context(), after, client.MergeFrom(work)))
}

// ApplyConnection makes the ClusterConnection have the mode, whoever created it.
func (l *lab) ApplyConnection(mode fleetv1alpha1.SyncMode) *fleetv1alpha1.ClusterConnection {
	l.t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: Cluster}}
	patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ClusterConnection","metadata":{"name":%q},"spec":{"syncMode":%q,"apiEndpoint":%q}}`,
		fleetv1alpha1.GroupVersion.String(), Cluster, mode, l.Endpoint)
	expect.NoError(l.t, l.Hub.Client.Patch(l.t.Context(), connection, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("test"), client.ForceOwnership))
	return connection
}

// RemoveWork deletes a work and waits until nothing of it is left on either side.
func (l *lab) RemoveWork(name string) {
	l.t.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: Cluster, Name: name}}
	expect.NoError(l.t, l.Hub.Client.Delete(l.t.Context(), work))
	l.Eventually("work "+name+" to be gone with its object", func(ctx context.Context) string {
		for _, each := range []struct {
			reader client.Reader
			object client.Object
		}{
			{l.Hub.Client, work},
			{l.Member.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}},
		} {
			if err := each.reader.Get(ctx, client.ObjectKeyFromObject(each.object), each.object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%T: %v", each.object, err)
			}
		}
		return ""
	})
}
