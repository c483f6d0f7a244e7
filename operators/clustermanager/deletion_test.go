// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func deploymentRecord(name string) render.AppliedRecord {
	return render.AppliedRecord{
		GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace:            testHubNS, Name: name,
	}
}

// quietPasses is how many passes in a row tell that a removal waits for users.
const quietPasses = 20

// remove deletes the ClusterManager and makes passes until it is gone or waits
// for objects of users.
func (l *lab) remove(t testing.TB) (gone bool) {
	t.Helper()
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	return l.continueRemoval(t)
}

func (l *lab) continueRemoval(t testing.TB) (gone bool) {
	t.Helper()
	quiet, said := 0, ""
	for range passesMax {
		cm := &operatorv1.ClusterManager{}
		if !l.exists(t, cm, testName, "") {
			return true
		}
		if _, err := l.controller.Reconcile(t.Context(), cm); err != nil {
			t.Fatalf("removal: %v", err)
		}
		l.endNamespace(t)
		if l.exists(t, cm, testName, "") && l.condition(t, "Deleting").Reason == "ResourcesRemaining" &&
			strings.Contains(l.condition(t, "Deleting").Message, " remain (") {
			if now := l.condition(t, "Deleting").Message; now != said {
				quiet, said = 0, now
			}
			if quiet++; quiet > quietPasses {
				return false
			}
		}
		<-time.After(gonePause)
	}
	t.Fatalf("the removal does not end: %+v", l.get(t).Status.Conditions)
	return false
}

// cluster makes a cluster with a work that an agent would have to clean up.
func (l *lab) cluster(t testing.TB, name string, available bool, finalizers ...string) {
	t.Helper()
	if len(finalizers) == 0 {
		finalizers = []string{workv1.FinalizerManifestWorkCleanup}
	}
	if !l.exists(t, &corev1.Namespace{}, name, "") {
		l.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.create(t, cluster)
	if available {
		cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue,
			Reason: clusterv1.ManagedClusterReasonAvailable, LastTransitionTime: metav1.Now(),
		}}
		expect.NoError(t, l.client.Status().Update(t.Context(), cluster))
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: name, Finalizers: finalizers}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`),
	}}}
	l.create(t, work)
	t.Cleanup(func() { l.freeWork(context.WithoutCancel(t.Context()), t, name) })
}

// freeWork takes the finalizer off the work of a cluster, as its agent does when it
// is done. The work may be gone, and its definition.
func (l *lab) freeWork(ctx context.Context, t testing.TB, cluster string) {
	t.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "work"}}
	err := l.client.Patch(ctx, work, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		t.Errorf("removing the finalizer of the work of cluster %s: %v", cluster, err)
	}
}

// ready installs a hub whose webhook servers are only pretended, so the
// configurations must not guard the test's own writes.
func (l *lab) ready(t testing.TB, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	l.hub(t, change)
	l.settle(t)
	for _, hooks := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
		expect.NoError(t, l.client.DeleteAllOf(t.Context(), hooks))
	}
	// The API server has to see that there are no webhooks any more.
	for _, probe := range []client.Object{
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
		&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"}},
	} {
		l.await(t, "no webhook is called", func() bool { return l.client.Create(t.Context(), probe, client.DryRunAll) == nil })
	}
}

func TestRemovalLeavesNothing(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.hub(t, propagating)
	l.settle(t)
	if !l.remove(t) {
		t.Fatal("the removal waits although nothing remains")
	}
	owner := client.MatchingLabels{operatorv1.LabelCreatedByClusterManager: testName}
	for _, list := range []client.ObjectList{
		&corev1.NamespaceList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		&appsv1.DeploymentList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		&apiextensionsv1.CustomResourceDefinitionList{},
	} {
		expect.NoError(t, l.client.List(t.Context(), list, owner))
		items := 0
		_ = eachItem(list, func(o client.Object) { items++; t.Errorf("%T %s/%s is left", o, o.GetNamespace(), o.GetName()) })
		if items > 0 {
			t.Errorf("%T: %d left", list, items)
		}
	}
}

func TestRemovalWaitsForWorksAndNamesThem(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.ready(t, nil)
	l.cluster(t, "quiet", false)
	if l.remove(t) {
		t.Fatal("the hub went although a work remains")
	}
	deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting)
	if deleting.Reason != "ResourcesRemaining" || !strings.Contains(deleting.Message, "1 manifestworks remain (quiet/work)") {
		t.Errorf("Deleting is %+v", deleting)
	}
	if len(l.deployments(t)) == 0 {
		t.Error("the hub was taken down before its clusters could clean up")
	}
	l.freeWork(t.Context(), t, "quiet") // the agent is done
	if !l.continueRemoval(t) {
		t.Errorf("the removal does not go on: %+v", l.condition(t, "Deleting"))
	}
}

func TestRemovalGivesUpSilentClustersAfterTheDeadline(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.ready(t, nil)
	l.cluster(t, "silent", false)
	if l.remove(t) {
		t.Fatal("the work was given up before the deadline")
	}
	l.clock.SetTime(l.get(t).DeletionTimestamp.Add(DefaultDeletionDeadline))
	if !l.continueRemoval(t) {
		t.Fatalf("the removal hangs: %+v", l.condition(t, "Deleting"))
	}
	for {
		select {
		case event := <-l.events.Events:
			if strings.Contains(event, "GivenUp") && strings.Contains(event, "silent/work") {
				return
			}
		default:
			t.Fatal("no event tells that the work was given up")
		}
	}
}

func TestRemovalWaitsForAnAvailableClusterPastTheDeadline(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.ready(t, nil)
	l.cluster(t, "awake", true)
	l.remove(t)
	l.clock.SetTime(l.get(t).DeletionTimestamp.Add(time.Hour))
	if l.continueRemoval(t) {
		t.Fatal("a cluster that is Available was not waited for")
	}
	// The registration controller dies: nobody would notice the cluster's silence.
	deployment := l.deployments(t)["cluster-manager-registration-controller"]
	deployment.Status.AvailableReplicas, deployment.Status.ReadyReplicas = 0, 0
	expect.NoError(t, l.client.Status().Update(t.Context(), &deployment))
	if !l.continueRemoval(t) {
		t.Fatal("the removal hangs on the word of a controller that is gone")
	}
}

// TestRemovalTakesTheGrantsOfClustersBackAfterTheDeadline has a hub that is slower than its removal.
func TestRemovalTakesTheGrantsOfClustersBackAfterTheDeadline(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	const binding, role = "open-cluster-management:managedcluster:gone:work", "open-cluster-management:managedcluster:gone"
	l.ready(t, nil)
	marks := map[string]string{clusterv1.LabelClusterName: "gone"}
	l.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone", Labels: marks}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role, Labels: marks}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-a-user", Labels: marks}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{
				Name: binding, Namespace: "gone", Labels: marks, Finalizers: []string{clusterv1.FinalizerManifestWorkCleanup},
			},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	for range passesMax {
		l.onePass(t)
		if strings.Contains(l.condition(t, "Deleting").Message, binding) {
			break
		}
		<-time.After(gonePause)
	}
	if got := l.condition(t, "Deleting"); !strings.Contains(got.Message, "RoleBinding gone/"+binding) {
		t.Errorf("the removal does not tell what it waits for: %+v", got)
	}
	if len(l.deployments(t)) == 0 || !l.exists(t, &rbacv1.RoleBinding{}, binding, "gone") {
		t.Error("the hub was not given the time to take back what it granted")
	}
	l.clock.SetTime(l.get(t).DeletionTimestamp.Add(DefaultDeletionDeadline))
	if !l.continueRemoval(t) {
		t.Fatalf("the removal hangs: %+v", l.condition(t, "Deleting"))
	}
	if l.exists(t, &rbacv1.RoleBinding{}, binding, "gone") || l.exists(t, &rbacv1.ClusterRole{}, role, "") {
		t.Error("grants of a cluster are left that nobody will ever take back")
	}
	if !l.exists(t, &rbacv1.ClusterRole{}, "of-a-user", "") {
		t.Error("the role of a user was removed")
	}
}

func TestRemovalDropsWebhooksThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	deployment := l.deployments(t)["cluster-manager-work-webhook"]
	deployment.Status.AvailableReplicas, deployment.Status.ReadyReplicas = 0, 0
	expect.NoError(t, l.client.Status().Update(t.Context(), &deployment))
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	l.onePass(t)
	if l.exists(t, &admissionv1.ValidatingWebhookConfiguration{}, "manifestworkvalidators.admission.work.open-cluster-management.io", "") {
		t.Error("a webhook without a server would refuse the removal of finalizers")
	}
}

func TestRemovalKeepsDefinitionsIfToldSo(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.ready(t, nil)
	l.cluster(t, "kept", false)
	deps := l.deps
	deps.Options.KeepCRDs = true
	l.controller = NewClusterManagerController(deps)
	if !l.remove(t) {
		t.Fatal("the removal waits")
	}
	work := &workv1.ManifestWork{}
	if !l.exists(t, work, "work", "kept") || !work.DeletionTimestamp.IsZero() {
		t.Error("the work was removed")
	}
	// So that the next test starts without a hub.
	l.freeWork(t.Context(), t, "kept")
	expect.NoError(t, l.client.Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}))
	expect.NoError(t, l.client.Delete(t.Context(), work))
	l.controller = NewClusterManagerController(l.deps)
}

func TestRemovalDoesNotTouchTheDefinitionsOfSomebodyElse(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	const name = "managedclustersetbindings.cluster.open-cluster-management.io"
	l.hub(t, nil)
	l.settle(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, crd, name, "")
	crd.Labels[operatorv1.LabelCreatedByClusterManager] = "another"
	expect.NoError(t, l.client.Update(t.Context(), crd))
	if !l.remove(t) {
		t.Fatal("the removal waits")
	}
	if !l.exists(t, crd, name, "") {
		t.Error("the definition of another hub was removed")
	}
}

func TestRemovalNeverTouchesOtherFinalizersThanThoseOfAHub(t *testing.T) {
	t.Parallel()
	l := removalLabs.TakeFixture(t)
	l.ready(t, nil)
	l.cluster(t, "guarded", false, workv1.FinalizerManifestWorkCleanup, "example.com/guard")
	l.remove(t)
	l.clock.SetTime(l.get(t).DeletionTimestamp.Add(time.Hour))
	if l.continueRemoval(t) {
		t.Fatal("the finalizer of somebody else was removed")
	}
	work := &workv1.ManifestWork{}
	l.exists(t, work, "work", "guarded")
	if len(work.Finalizers) != 1 || work.Finalizers[0] != "example.com/guard" {
		t.Errorf("finalizers are %q", work.Finalizers)
	}
	l.freeWork(t.Context(), t, "guarded")
	if !l.continueRemoval(t) {
		t.Error("the removal does not go on")
	}
}

func TestAnnotationMovesTheDeadlineOfARemovalAndNonsenseDoesNot(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for value, want := range map[string]time.Duration{
		"": DefaultDeletionDeadline, "10m": 10 * time.Minute, "0s": 0, "soon": DefaultDeletionDeadline, "-5s": DefaultDeletionDeadline,
	} {
		cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{
			DeletionTimestamp: &now, Annotations: map[string]string{operatorv1.AnnotationDeletionDeadline: value},
		}}
		if at, wait := deletionDeadline(cm); wait != want || !at.Equal(now.Add(want)) {
			t.Errorf("annotation %q: deadline after %s, want %s", value, wait, want)
		}
	}
}
