// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/hub/work/ttl"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
)

const (
	namespace = "cluster1"
	// patience only decides how long a failure takes.
	patience = time.Minute
)

// workHubs is one hub for all tests: each has works of its own.
var workHubs = env.NewFixtures(servers, func(t testing.TB) *rest.Config {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, restConfig := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	create(t, newClient(t, restConfig), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	return restConfig
})

func TestFinishedWorksEndNotASecondTooEarly(t *testing.T) {
	admin := newClient(t, workHubs.ShareFixture(t))
	w := finished(t, admin, "reconciled", 3600, nil)
	end := w.Status.Conditions[0].LastTransitionTime.Add(time.Hour)
	clock := clocktesting.NewFakeClock(end.Add(-time.Second))
	controller := ttl.NewWorkTTLController(admin, clock)
	reconcile := func() time.Duration {
		t.Helper()
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if again := reconcile(); again != time.Second || !exists(t, admin, w) {
		t.Fatalf("a second is left: want a look in a second, got %s, and the work there", again)
	}
	// The time to live becomes longer.
	w.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](7200)
	if err := admin.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Second)
	if again := reconcile(); again != time.Hour || !exists(t, admin, w) {
		t.Fatalf("an hour was added: want a look in an hour, got %s, and the work there", again)
	}
	clock.Step(time.Hour)
	if again := reconcile(); again != 0 || exists(t, admin, w) {
		t.Fatalf("the time is over: the work is there still, or a look is wanted in %s", again)
	}
	if again := reconcile(); again != 0 {
		t.Errorf("a work that is gone needs no look, got one in %s", again)
	}
}

// TestFinishedWorksStayIfTheyHaveChanged changes a work between the decision and the deletion.
func TestFinishedWorksStayIfTheyHaveChanged(t *testing.T) {
	restConfig := workHubs.ShareFixture(t)
	admin := newClient(t, restConfig)
	watching, err := client.NewWithWatch(restConfig, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(w *workv1.ManifestWork){
		"kept": func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption.TTLSecondsAfterFinished = nil
			if err := admin.Update(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		},
		"made-again": func(w *workv1.ManifestWork) {
			if err := admin.Delete(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			finished(t, admin, w.Name, 0, nil)
		},
	} {
		w := finished(t, admin, name, 0, nil)
		meanwhile := interceptor.NewClient(watching, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.DeleteOption) error {
				change(w.DeepCopy())
				return c.Delete(ctx, object, o...)
			},
		})
		controller := ttl.NewWorkTTLController(meanwhile, clocktesting.NewFakeClock(time.Now().Add(time.Hour)))
		if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)}); err != nil {
			t.Errorf("%s: a change is no error: %v", name, err)
		}
		if !exists(t, admin, w) {
			t.Errorf("%s: the work has changed since it was decided to delete it, but it was deleted", name)
		}
	}
}

// TestFinishedWorksEndByTheComponentWithItsOwnRights runs the component with the role that it is installed with.
func TestFinishedWorksEndByTheComponentWithItsOwnRights(t *testing.T) {
	restConfig := workHubs.ShareFixture(t)
	admin := newClient(t, restConfig)
	const user = "work-controller-sa"
	rules, _, err := config.Rules(config.WorkController)
	if err != nil {
		t.Fatal(err)
	}
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules})
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	env.WaitAllowed(t.Context(), t, restConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", rules[0], true)
	own := rest.CopyConfig(restConfig)
	own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	scheme, err := work.NewWorkScheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: scheme, Cache: work.NewWorkCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.CleanUpCompletedManifestWork): true})
	if err := work.SetupWorkControllers(t.Context(), mgr, work.SetupOptions{Gates: gates}); err != nil {
		t.Fatal(err)
	}
	before := finished(t, admin, "before", 0, nil)
	forEver := finished(t, admin, "for-ever", 1_000_000, nil)
	part := finished(t, admin, "part", 0, map[string]string{workv1.LabelManifestWorkReplicaSet: "default.set"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running the component: %v", err)
		}
	}()
	waitGone(t, admin, before)
	// These change while the component runs: a second is left, and is waited for.
	waitGone(t, admin, finished(t, admin, "after", 1, nil))
	changed := finished(t, admin, "changed", 1_000_000, nil)
	changed.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](0)
	if err := admin.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	waitGone(t, admin, changed)
	for _, w := range []*workv1.ManifestWork{forEver, part} {
		if !exists(t, admin, w) {
			t.Errorf("ManifestWork %q must stay", w.Name)
		}
	}
	kept := &workv1.ManifestWork{}
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(forEver), kept); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workv1.ManifestsTemplate{}, kept.Spec.Workload); diff != "" {
		t.Errorf("the cache has manifests (-want +got):\n%s", diff)
	}
}

// finished creates a work that has finished now.
func finished(t *testing.T, c client.Client, name string, ttl int64, labels map[string]string) *workv1.ManifestWork {
	t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	w.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyForeground, TTLSecondsAfterFinished: &ttl,
	}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`),
	}}}
	create(t, c, w)
	w.Status.Conditions = []metav1.Condition{{
		Type: workv1.ManifestWorkConditionComplete, Status: metav1.ConditionTrue, Reason: "ConditionRulesAggregated",
		LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}}
	if err := c.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return w
}

func create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, c client.Client, w *workv1.ManifestWork) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(w), &workv1.ManifestWork{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func waitGone(t *testing.T, c client.Client, w *workv1.ManifestWork) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return !exists(t, c, w), nil }) //nolint:contextcheck // the test's own will do
	if err != nil {
		t.Errorf("ManifestWork %q is still there: %v", w.Name, err)
	}
}

func newClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, workv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
