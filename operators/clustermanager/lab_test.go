// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

const (
	testName  = "cluster-manager"
	testImage = "registry.example/capstan:1"
	testHubNS = operatorv1.DefaultHubNamespace
	// passesMax is how many passes a hub may need to settle: far more than it does,
	// as the API server, when it cannot remove a definition at once on a busy machine,
	// tries again after a minute, and after that waits longer each time.
	passesMax = 4000
	// gonePause lets the API server do what it does on its own in a removal.
	gonePause = 100 * time.Millisecond
)

// lab is a hub's API server with the operator's controller, whose passes the
// test makes itself.
type lab struct {
	client client.Client
	// writes counts requests that change something.
	writes     int
	controller *Controller
	clock      *clocktesting.FakePassiveClock
	events     *events.FakeRecorder
	deps       ControllerDeps
	// restConfig has the rights of the operator, adminConfig all.
	restConfig, adminConfig *rest.Config
	// namespace of the pods of the hub.
	namespace string
}

// newLab starts an API server. Subtests share it and clean up by removing their
// ClusterManager.
func newLab(t *testing.T) *lab {
	t.Helper()
	scheme, err := NewClusterManagerScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme), flowcontrolv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	_, restConfig := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{filepath.Join("..", "..", "config", "crd", "operator.open-cluster-management.io_clustermanagers.yaml")}
	})
	direct, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	operatorConfig := asOperator(t, direct, restConfig)
	operator, err := client.NewWithWatch(operatorConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	crds, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	propagation, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{client: direct, clock: clocktesting.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(1000), namespace: testHubNS}
	l.restConfig, l.adminConfig = operatorConfig, restConfig
	l.deps = ControllerDeps{
		Client: l.counting(operator), Reader: operator, Clock: l.clock, Events: l.events,
		CRDs: crds, Propagation: propagation, Rules: config.Rules,
		Options: OperatorOptions{
			Namespace: operatorv1.DefaultOperatorNamespace, Image: testImage, Version: "1.2.3",
			PullSecret: operatorv1.ImagePullSecret, ControlPlane: labels.SelectorFromSet(labels.Set{"control-plane": ""}),
		},
	}
	l.controller = NewClusterManagerController(l.deps)
	l.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorv1.DefaultOperatorNamespace}})
	return l
}

// asOperator returns the config of a client with the rights of the operator's generated role
// and no others.
func asOperator(t *testing.T, admin client.Client, restConfig *rest.Config) *rest.Config {
	t.Helper()
	cluster, namespaced, err := config.Rules(config.ClusterManager)
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:serviceaccount:open-cluster-management:cluster-manager" // whom the fence is for
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: slices.Concat(cluster, namespaced, role(t, propagationRole).Rules)},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	env.WaitAllowed(t.Context(), t, restConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", cluster[0], true)
	impersonating := rest.CopyConfig(restConfig)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: user}
	return impersonating
}

// counting returns a client that counts the writes.
func (l *lab) counting(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			l.writes++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			l.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			l.writes++
			return c.Apply(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			l.writes++
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			l.writes++
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			l.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

func (l *lab) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := l.client.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
		}
	}
}

// hub makes a ClusterManager that is removed, with its hub, after the test.
func (l *lab) hub(t *testing.T, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: testName}}
	if change != nil {
		change(cm)
	}
	l.create(t, cm)
	l.clock.SetTime(time.Now())
	t.Cleanup(func() { l.clean(t) })
}

// clean removes the ClusterManager and everything of the hub.
func (l *lab) clean(t *testing.T) {
	ctx := context.WithoutCancel(t.Context()) // that of the test is done in a cleanup
	cm := &operatorv1.ClusterManager{}
	if err := l.client.Get(ctx, client.ObjectKey{Name: testName}, cm); apierrors.IsNotFound(err) {
		return
	}
	unpause := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, operatorv1.AnnotationPaused)
	// A patch, as the operator may write at the same time.
	if err := l.client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, unpause)); err != nil {
		t.Errorf("unpausing: %v", err)
	}
	if err := l.client.Delete(ctx, cm); err != nil {
		t.Errorf("deleting the ClusterManager: %v", err)
	}
	l.clock.SetTime(time.Now().Add(time.Hour))
	keeping := l.deps
	keeping.Options.KeepCRDs = true // their removal takes the API server seconds
	controller := NewClusterManagerController(keeping)
	for range passesMax {
		l.endNamespace(ctx, t)
		if err := l.client.Get(ctx, client.ObjectKey{Name: testName}, cm); apierrors.IsNotFound(err) {
			l.endNamespace(ctx, t)
			return
		}
		if _, err := controller.Reconcile(ctx, cm); err != nil {
			t.Errorf("removing the hub: %v", err)
		}
		<-time.After(gonePause / 4)
	}
	t.Error("the ClusterManager is still there")
}

// endNamespace does what the controller manager does for a deleted namespace.
func (l *lab) endNamespace(ctx context.Context, t *testing.T) {
	endNamespace(ctx, t, l.client, l.namespace)
}

func endNamespace(ctx context.Context, t *testing.T, c client.Client, name string) {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil || namespace.DeletionTimestamp.IsZero() {
		return
	}
	for _, list := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		if err := c.DeleteAllOf(ctx, list, client.InNamespace(name)); err != nil {
			t.Errorf("emptying the namespace: %v", err)
		}
	}
	namespace.Spec.Finalizers = nil
	if err := c.SubResource("finalize").Update(ctx, namespace); client.IgnoreNotFound(err) != nil {
		t.Errorf("ending the namespace: %v", err)
	}
}

func (l *lab) get(t *testing.T) *operatorv1.ClusterManager {
	t.Helper()
	cm := &operatorv1.ClusterManager{}
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: testName}, cm); err != nil {
		t.Fatalf("reading the ClusterManager: %v", err)
	}
	return cm
}

func (l *lab) change(t *testing.T, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	cm := l.get(t)
	before := cm.DeepCopy()
	change(cm)
	// A patch, as the operator may write at the same time.
	if err := l.client.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
		t.Fatalf("changing the ClusterManager: %v", err)
	}
}

// pass makes one pass.
func (l *lab) pass(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return l.controller.Reconcile(t.Context(), l.get(t))
}

// settle makes passes and rolls the Deployments out until the hub is installed.
func (l *lab) settle(t *testing.T) {
	t.Helper()
	for range passesMax {
		if _, err := l.pass(t); err != nil {
			t.Fatalf("pass: %v", err)
		}
		if l.rollOut(t) == 0 && status.IsTrue(l.get(t).Status.Conditions, operatorv1.ClusterManagerConditionApplied) &&
			meta.IsStatusConditionFalse(l.get(t).Status.Conditions, operatorv1.ClusterManagerConditionProgressing) {
			return
		}
		<-time.After(gonePause / 4)
	}
	t.Fatalf("the hub does not settle: %+v", l.get(t).Status.Conditions)
}

// rollOut does what the controller manager does for Deployments and returns how
// many it changed.
func (l *lab) rollOut(t *testing.T) int {
	t.Helper()
	changed := 0
	for _, d := range l.deployments(t) {
		want := appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas,
			ReadyReplicas: *d.Spec.Replicas, AvailableReplicas: *d.Spec.Replicas,
		}
		if d.Status.ObservedGeneration == want.ObservedGeneration && d.Status.AvailableReplicas == want.AvailableReplicas {
			continue
		}
		d.Status = want
		changed++
		if err := l.client.Status().Update(t.Context(), &d); err != nil && !apierrors.IsConflict(err) {
			t.Fatalf("rolling out %q: %v", d.Name, err)
		}
	}
	return changed
}

func (l *lab) deployments(t *testing.T) map[string]appsv1.Deployment {
	t.Helper()
	list := &appsv1.DeploymentList{}
	if err := l.client.List(t.Context(), list, client.InNamespace(l.namespace)); err != nil {
		t.Fatalf("listing Deployments: %v", err)
	}
	found := map[string]appsv1.Deployment{}
	for _, d := range list.Items {
		found[d.Name] = d
	}
	return found
}

func (l *lab) condition(t *testing.T, conditionType string) metav1.Condition {
	t.Helper()
	condition := meta.FindStatusCondition(l.get(t).Status.Conditions, conditionType)
	if condition == nil {
		return metav1.Condition{}
	}
	return *condition
}

func (l *lab) exists(t *testing.T, object client.Object, name, namespace string) bool {
	t.Helper()
	err := l.client.Get(t.Context(), client.ObjectKey{Name: name, Namespace: namespace}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("reading %T %q: %v", object, name, err)
	}
	return err == nil
}

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			do(object)
		}
		return nil
	})
}
