// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAPushClusterWithFewerRights takes the broad rights from the account of the
// hub in a member, as docs/security.md says, and gives it one namespace: works
// in that are delivered, and others say what they lack.
func TestAPushClusterWithFewerRights(t *testing.T) {
	w := newWorld(t)
	w.want(t, exit.OK, "cluster(member1) is joined successfully\n", "", w.join("member1")...)
	for _, suffix := range []string{"execution", "aggregate", "admin"} {
		expect.NoError(t, w.member.client.Delete(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "capstan:capstan-cluster:member1:" + suffix},
		}))
	}
	expect.NoError(t, w.member.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}))
	expect.NoError(t, w.member.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "capstan"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "team-a-works"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "capstan-cluster", Name: "capstan-member1"}},
	}))
	expect.NoError(t, w.member.client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "team-a-works"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}))

	w.work(t, "inside", "ConfigMap", "team-a")
	w.applied(t, "inside", metav1.ConditionTrue)
	w.work(t, "outside", "ConfigMap", "default")
	w.work(t, "secret", "Secret", "team-a")
	w.applied(t, "outside", metav1.ConditionFalse)
	w.applied(t, "secret", metav1.ConditionFalse)

	for _, name := range []string{"inside", "outside", "secret"} {
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: name}}
		expect.NoError(t, w.hub.client.Delete(t.Context(), work))
		expect.NothingWrong(t, patience, "work "+name+" is gone", func() string {
			if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(work), work); !apierrors.IsNotFound(err) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	err := w.member.client.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "inside"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("what a work delivered is there after it is gone: %v", err)
	}
}

// work has an object of the kind delivered to member1.
func (w *world) work(t *testing.T, name, kind, namespace string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"namespace":%q,"name":%q}}`, kind, namespace, name)
	cluster.CreateObjects(t, w.hub.client, build.ManifestWork("member1", name, manifest))
}

// applied waits until the work says whether it is applied.
func (w *world) applied(t *testing.T, name string, want metav1.ConditionStatus) {
	t.Helper()
	expect.NothingWrong(t, patience, fmt.Sprintf("work %s says Applied=%s", name, want), func() string {
		work := &workv1.ManifestWork{}
		expect.NoError(t, w.hub.client.Get(t.Context(), client.ObjectKey{Namespace: "member1", Name: name}, work))
		condition := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
		if condition == nil || condition.Status != want {
			return fmt.Sprintf("it says %+v", condition)
		}
		return ""
	})
}
