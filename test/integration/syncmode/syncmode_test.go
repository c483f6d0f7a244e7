// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncmode tests that a cluster can change between Pull and Push, with
// the hub's controllers, both agents and their rights, on real API servers.
package syncmode

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestAClusterChangesBetweenPullAndPushWithAllThatRunsOnIt(t *testing.T) {
	l := newLab(t)
	l.startPull()
	l.startPush()
	l.createJoined(nil)
	l.mayUseWorks(true)
	for _, name := range []string{"stays", "changes", "goes"} {
		l.create(&workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name},
			Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{manifest(name, "1")}}},
		})
	}
	for _, name := range []string{"stays", "changes", "goes"} {
		l.delivered(name, "1")
	}
	before := l.marks()
	l.ownedBy(klusterlet, 3)

	// To Push: the agent on the hub takes over, and touches nothing.
	secret := l.secret()
	connection := l.connect(fleetv1alpha1.SyncModePush)
	l.mayUseWorks(false)
	l.ownedBy(string(connection.UID), 3)
	if diff := cmp.Diff(before, l.marks()); diff != "" {
		t.Errorf("going to Push changed objects on the member (-before +after):\n%s", diff)
	}
	l.change("changes", "2")
	l.delivered("changes", "2")
	l.remove("goes")
	l.renewed(secret)

	// And back, likewise.
	before = l.marks()
	l.connect(fleetv1alpha1.SyncModePull)
	l.mayUseWorks(true)
	l.ownedBy(klusterlet, 2)
	if diff := cmp.Diff(before, l.marks()); diff != "" {
		t.Errorf("going back to Pull changed objects on the member (-before +after):\n%s", diff)
	}
	l.change("stays", "3")
	l.delivered("stays", "3")
	l.remove("stays")
	l.remove("changes")
	l.ownedBy(klusterlet, 0)
}

// secret makes the Secret with which the hub reaches the member.
func (l *lab) secret() *corev1.Secret {
	l.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: fleetv1alpha1.DefaultSecretName},
		Data: map[string][]byte{
			fleetv1alpha1.SecretKeyToken: l.token(), fleetv1alpha1.SecretKeyCABundle: l.member.config.CAData,
		},
	}
	l.create(secret)
	return secret
}

// renewed waits until the push agent has put another token into the Secret.
func (l *lab) renewed(before *corev1.Secret) {
	l.t.Helper()
	l.eventually("another token in the Secret", func(ctx context.Context) string {
		now := &corev1.Secret{}
		must(l.t, l.hub.client.Get(ctx, client.ObjectKeyFromObject(before), now))
		if bytes.Equal(now.Data[fleetv1alpha1.SecretKeyToken], before.Data[fleetv1alpha1.SecretKeyToken]) {
			return "it is the first one"
		}
		return ""
	})
}

// marks are what shows whether somebody wrote an object of a work.
func (l *lab) marks() map[string]string {
	l.t.Helper()
	list := &corev1.ConfigMapList{}
	must(l.t, l.member.client.List(l.t.Context(), list, client.InNamespace("default"), client.MatchingLabels{workv1.LabelManaged: "true"}))
	marks := map[string]string{}
	for _, item := range list.Items {
		marks[item.Name] = string(item.UID) + "/" + item.ResourceVersion
	}
	return marks
}

// ownedBy waits until there are so many records, and all are of the agent.
func (l *lab) ownedBy(agent string, count int) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("%d records of the agent %s", count, agent), func(ctx context.Context) string {
		list := &workv1.AppliedManifestWorkList{}
		must(l.t, l.member.client.List(ctx, list))
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

// delivered waits until the object of a work has the value and the hub knows.
func (l *lab) delivered(name, value string) {
	l.t.Helper()
	l.eventually("work "+name+" with value "+value, func(ctx context.Context) string {
		object, work := &corev1.ConfigMap{}, &workv1.ManifestWork{}
		if err := l.member.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, object); err != nil {
			return err.Error()
		}
		must(l.t, l.hub.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: name}, work))
		applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
		if object.Data["value"] != value || applied == nil || applied.Status != metav1.ConditionTrue || applied.ObservedGeneration != work.Generation {
			return fmt.Sprintf("the value is %q, the condition %+v", object.Data["value"], applied)
		}
		return ""
	})
}

func (l *lab) change(name, value string) {
	l.t.Helper()
	work := &workv1.ManifestWork{}
	must(l.t, l.hub.client.Get(l.t.Context(), client.ObjectKey{Namespace: cluster, Name: name}, work))
	after := work.DeepCopy()
	after.Spec.Workload.Manifests = []workv1.Manifest{manifest(name, value)}
	must(l.t, l.hub.client.Patch(l.t.Context(), after, client.MergeFrom(work)))
}

// connect makes the ClusterConnection have the mode, whoever created it.
func (l *lab) connect(mode fleetv1alpha1.SyncMode) *fleetv1alpha1.ClusterConnection {
	l.t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ClusterConnection","metadata":{"name":%q},"spec":{"syncMode":%q,"apiEndpoint":%q}}`,
		fleetv1alpha1.GroupVersion.String(), cluster, mode, l.endpoint)
	must(l.t, l.hub.client.Patch(l.t.Context(), connection, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("test"), client.ForceOwnership))
	return connection
}

// remove deletes a work and waits until nothing of it is left on either side.
func (l *lab) remove(name string) {
	l.t.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
	must(l.t, l.hub.client.Delete(l.t.Context(), work))
	l.eventually("work "+name+" to be gone with its object", func(ctx context.Context) string {
		for _, each := range []struct {
			reader client.Reader
			object client.Object
		}{
			{l.hub.client, work},
			{l.member.client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}},
		} {
			if err := each.reader.Get(ctx, client.ObjectKeyFromObject(each.object), each.object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%T: %v", each.object, err)
			}
		}
		return ""
	})
}
