// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	operatorAccount = "system:serviceaccount:open-cluster-management:control-plane"
	// home is the namespace of the ControlPlane, and kubeconfigs that of its
	// kubeconfig.
	name, home, kubeconfigs = "hub", "hub-control-plane", "hub"
	// binding gives the operator its permissions in each of them.
	binding = "control-plane"
)

// harness is the operator on a host with a real API server, which also stands
// for the one that the operator installs: nobody runs pods here. The operator has
// its own roles and nothing more.
type harness struct {
	t testing.TB
	// admin is the client of the host's administrator.
	admin  client.Client
	config *rest.Config
	// operator is how the operator reaches it.
	operator *rest.Config
	c        *Controller
	recorder *events.FakeRecorder
	clock    *clocktesting.FakeClock
	// connections are those that the operator made to API servers.
	connections []*rest.Config
	// outdated is what is wrong with the certificate of an API server, if anything.
	outdated error
	// unreachable is what connecting to the API server fails with, if anything.
	unreachable error
}

func start(t *testing.T) *harness {
	t.Helper()
	environment, admin := servers.Start(t, func(e *envtest.Environment) {
		e.CRDInstallOptions.Paths = []string{"../../config/crd/fleet.capstan.io_controlplanes.yaml"}
	})
	h := &harness{t: t, config: admin, recorder: events.NewFakeRecorder(100), clock: clocktesting.NewFakeClock(time.Now())}
	h.admin = h.client(admin)
	objects, err := config.Operator(config.ControlPlaneOperator)
	expect.NoError(t, err)
	for _, object := range objects {
		switch object.GetKind() {
		case "Namespace", "ClusterRole", "ClusterRoleBinding":
			h.create(object)
		}
	}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: home, Labels: map[string]string{operatorv1.LabelOperatedBy: fleetv1alpha1.ControlPlaneOperator},
	}})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kubeconfigs}})
	user, err := environment.AddUser(envtest.User{Name: operatorAccount, Groups: []string{"system:serviceaccounts"}}, admin)
	expect.NoError(t, err)
	h.operator = user.Config()
	restricted := h.client(h.operator)
	h.c = NewControlPlaneController(ControllerDeps{
		Client: restricted, Live: restricted, Events: h.recorder, Clock: h.clock, Namespace: operatorv1.DefaultOperatorNamespace,
		Serves: func(context.Context, string, string, []byte) error { return h.outdated },
		Connect: func(c *rest.Config) (client.Client, error) {
			h.connections = append(h.connections, c)
			return h.admin, h.unreachable
		},
	})
	return h
}

func (h *harness) client(config *rest.Config) client.WithWatch {
	h.t.Helper()
	return cluster.NewClient(h.t, config, fleetv1alpha1.AddToScheme, clusterv1.AddToScheme)
}

// grant makes the bindings that the messages of the operator ask for.
func (h *harness) grant() {
	h.t.Helper()
	for namespace, role := range map[string]string{
		home: fleetv1alpha1.ControlPlaneNamespaceRole, kubeconfigs: fleetv1alpha1.ControlPlaneKubeconfigRole,
	} {
		h.create(build.ClusterRoleBindingIn(namespace, binding, role,
			build.AccountSubject(operatorv1.DefaultOperatorNamespace, fleetv1alpha1.ControlPlaneOperator)))
		h.granted(namespace, true)
	}
}

// granted waits until the API server knows whether the operator may work in the
// namespace.
func (h *harness) granted(namespace string, want bool) {
	h.t.Helper()
	rule := build.AccessRule("", "secrets", "create")
	env.WaitAllowed(h.t.Context(), h.t, h.config, env.ServiceAccountReview(operatorv1.DefaultOperatorNamespace, fleetv1alpha1.ControlPlaneOperator), namespace, rule, want)
}

// class makes a default StorageClass.
func (h *harness) class() {
	h.create(&storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{defaultClassAnnotation: "true"}},
		Provisioner: "example.com/none",
	})
}

func (h *harness) create(object client.Object) {
	h.t.Helper()
	if err := h.admin.Create(h.t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) remove(object client.Object) {
	h.t.Helper()
	expect.NoError(h.t, h.admin.Delete(h.t.Context(), object))
}

// plane creates a ControlPlane, changed by the functions.
func (h *harness) plane(change ...func(*fleetv1alpha1.ControlPlaneSpec)) {
	h.t.Helper()
	cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	cp.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{}
	for _, f := range change {
		f(&cp.Spec)
	}
	h.create(cp)
}

func (h *harness) update(change func(*fleetv1alpha1.ControlPlaneSpec)) {
	h.t.Helper()
	cp := h.get()
	change(&cp.Spec)
	expect.NoError(h.t, h.admin.Update(h.t.Context(), cp))
}

func (h *harness) get() *fleetv1alpha1.ControlPlane {
	h.t.Helper()
	cp := &fleetv1alpha1.ControlPlane{}
	h.read(cp, home, name)
	return cp
}

func (h *harness) read(into client.Object, namespace, name string) {
	h.t.Helper()
	expect.NoError(h.t, h.admin.Get(h.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into))
}

func (h *harness) exists(object client.Object, namespace, name string) bool {
	h.t.Helper()
	return cluster.ObjectExists(h.t, h.admin, object, namespace, name)
}

// walk runs one pass and fails the test if it does.
func (h *harness) walk() ctrl.Result {
	h.t.Helper()
	result, err := h.c.Reconcile(h.t.Context(), h.get())
	if err != nil {
		h.t.Fatalf("Reconcile: %v", err)
	}
	return result
}

// refuse runs one pass and fails the test unless it ends with a mistake.
func (h *harness) refuse() {
	h.t.Helper()
	if _, err := h.c.Reconcile(h.t.Context(), h.get()); !errors.Is(err, reconcile.TerminalError(nil)) {
		h.t.Fatalf("Reconcile: got error %v, want a terminal one", err)
	}
}

// expect compares a condition.
func (h *harness) expect(kind string, status metav1.ConditionStatus, reason, message string) {
	h.t.Helper()
	cp := h.get()
	expect.Condition(h.t, cp.Status.Conditions, cp.Generation, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// ready says in the status of a workload that all its pods are.
func (h *harness) ready(workload client.Object, suffix string) {
	h.t.Helper()
	h.read(workload, home, name+suffix)
	switch w := workload.(type) {
	case *appsv1.StatefulSet:
		n := *w.Spec.Replicas
		w.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: w.Generation, Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, AvailableReplicas: n,
			CurrentRevision: "a", UpdateRevision: "a",
		}
	case *appsv1.Deployment:
		n := *w.Spec.Replicas
		w.Status = appsv1.DeploymentStatus{ObservedGeneration: w.Generation, Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, AvailableReplicas: n}
	}
	expect.NoError(h.t, h.admin.Status().Update(h.t.Context(), workload))
}

func (h *harness) etcdReady() {
	h.t.Helper()
	h.ready(&appsv1.StatefulSet{}, fleetv1alpha1.ControlPlaneEtcdSuffix)
}

func (h *harness) serverReady() {
	h.t.Helper()
	h.ready(&appsv1.Deployment{}, fleetv1alpha1.ControlPlaneAPIServerSuffix)
}

func (h *harness) managerReady() {
	h.t.Helper()
	h.ready(&appsv1.Deployment{}, fleetv1alpha1.ControlPlaneControllerManagerSuffix)
}

func (h *harness) deployment(suffix string) *appsv1.Deployment {
	h.t.Helper()
	d := &appsv1.Deployment{}
	h.read(d, home, name+suffix)
	return d
}

// install walks until everything is installed.
func (h *harness) install() {
	h.t.Helper()
	h.walk()
	h.etcdReady()
	h.walk()
	h.serverReady()
	h.walk()
	h.managerReady()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, metav1.ConditionTrue, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
}

// pod makes a pod of a component that waits.
func (h *harness) pod(component, reason, message string) *corev1.Pod {
	h.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name + "-" + component + "-x", Labels: map[string]string{
			fleetv1alpha1.LabelControlPlane: name, operatorv1.LabelPartOf: operatorv1.PartOfCapstan, fleetv1alpha1.LabelControlPlaneComponent: component,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: component, Image: "x"}}},
	}
	h.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: component, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	expect.NoError(h.t, h.admin.Status().Update(h.t.Context(), pod))
	return pod
}
