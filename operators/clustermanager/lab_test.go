// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
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

// hubLabs, removalLabs and teardownLabs are for tests that need no more than to begin without
// a hub: each removes its ClusterManager. Others, which leave more behind, have a lab of their own.
var (
	hubLabs      = env.NewFixtures(servers, newLab)
	removalLabs  = env.NewFixtures(servers, newLab)
	teardownLabs = env.NewFixtures(servers, newLab)
)

// newLab starts an API server.
func newLab(t testing.TB) *lab {
	t.Helper()
	scheme, err := NewClusterManagerScheme()
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme), flowcontrolv1.AddToScheme(scheme)))
	_, restConfig := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{filepath.Join("..", "..", "config", "crd", "operator.open-cluster-management.io_clustermanagers.yaml")}
	})
	direct, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	everywhere, namespaced, err := config.Rules(config.ClusterManager)
	expect.NoError(t, err)
	const user = "system:serviceaccount:open-cluster-management:cluster-manager" // whom the fence is for
	cluster.GrantUser(t, direct, restConfig, user, slices.Concat(everywhere, namespaced, cluster.ReadRole(t, propagationRole).Rules)...)
	operatorConfig := cluster.AsUser(restConfig, user) // with the rights of the generated role and no others
	operator, err := client.NewWithWatch(operatorConfig, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	crds, err := config.HubCRDs()
	expect.NoError(t, err)
	propagation, err := config.PropagationCRDs()
	expect.NoError(t, err)
	l := &lab{client: direct, clock: clocktesting.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(1000), namespace: testHubNS}
	l.restConfig, l.adminConfig = operatorConfig, restConfig
	l.deps = ControllerDeps{
		Client: cluster.CountWrites(operator, func() { l.writes++ }), Reader: operator, Clock: l.clock, Events: l.events,
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

func (l *lab) create(t testing.TB, objects ...client.Object) {
	t.Helper()
	cluster.CreateObjects(t, l.client, objects...)
}

func (l *lab) exists(t testing.TB, object client.Object, name, namespace string) bool {
	t.Helper()
	return cluster.ObjectExists(t, l.client, object, namespace, name)
}

// hub makes a ClusterManager that is removed, with its hub, after the test.
func (l *lab) hub(t testing.TB, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: testName}}
	if change != nil {
		change(cm)
	}
	l.create(t, cm)
	l.clock.SetTime(time.Now())
	env.WhenDone(t, l.clean)
}

// clean removes the ClusterManager and everything of the hub.
func (l *lab) clean(t testing.TB) {
	ctx := t.Context()
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
		l.endNamespace(t)
		if err := l.client.Get(ctx, client.ObjectKey{Name: testName}, cm); apierrors.IsNotFound(err) {
			l.endNamespace(t)
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
func (l *lab) endNamespace(t testing.TB) {
	t.Helper()
	cluster.EndNamespace(t, l.client, l.namespace)
}

func (l *lab) get(t testing.TB) *operatorv1.ClusterManager {
	t.Helper()
	cm := &operatorv1.ClusterManager{}
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: testName}, cm); err != nil {
		t.Fatalf("reading the ClusterManager: %v", err)
	}
	return cm
}

func (l *lab) change(t testing.TB, change func(*operatorv1.ClusterManager)) {
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
func (l *lab) pass(t testing.TB) (ctrl.Result, error) {
	t.Helper()
	return l.controller.Reconcile(t.Context(), l.get(t))
}

// settle makes passes and rolls the Deployments out until the hub is installed.
func (l *lab) settle(t testing.TB) {
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
func (l *lab) rollOut(t testing.TB) int {
	t.Helper()
	changed := 0
	for _, d := range l.deployments(t) {
		if d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas {
			continue
		}
		changed++
		if err := cluster.RollOutDeployment(t.Context(), l.client, &d); err != nil && !apierrors.IsConflict(err) {
			t.Fatalf("rolling out %q: %v", d.Name, err)
		}
	}
	return changed
}

func (l *lab) deployments(t testing.TB) map[string]appsv1.Deployment {
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

// certificate returns the one in a Secret of the hub.
func (l *lab) certificate(t testing.TB, secret string) *certs.CertificatePair {
	t.Helper()
	found := &corev1.Secret{}
	if !l.exists(t, found, secret, l.namespace) {
		t.Fatalf("secret %s is missing", secret)
	}
	pair, err := certs.ParsePair(found.Data[corev1.TLSCertKey], found.Data[corev1.TLSPrivateKeyKey])
	expect.NoError(t, err)
	return pair
}

func (l *lab) condition(t testing.TB, conditionType string) metav1.Condition {
	t.Helper()
	condition := meta.FindStatusCondition(l.get(t).Status.Conditions, conditionType)
	if condition == nil {
		return metav1.Condition{}
	}
	return *condition
}

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			do(object)
		}
		return nil
	})
}
