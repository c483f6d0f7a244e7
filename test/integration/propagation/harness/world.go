// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/hub/propagation"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/passes"
)

// patience only decides how long a failure takes.
const patience = 3 * time.Minute

// World is a hub with the controllers of propagation, and agents.
type World struct {
	testing.TB
	client.WithWatch
	servers     *env.Servers // that hub and members are
	Environment *envtest.Environment
	Config      *rest.Config
	Options     *propagation.SetupOptions // of the controllers that are started next
	Ended       *func()                   // stops the controllers
	Limits      *selfconflict.Limits      // of their writes
	Running     *[]*passes.Passes         // of the controllers that run
	Members     map[string]*Member        // those clusters that are API servers; agents of others are faked
}

// definitions are the kinds of the hub.
const definitions = "../../../config/crd"

// NewWorld starts a hub with so many clusters, named member1 and on, and an agent
// for each. The wrappers are about the requests of the controllers.
func NewWorld(t testing.TB, servers *env.Servers, members int, wrappers ...transport.WrapperFunc) World {
	t.Helper()
	w := NewHub(t, servers)
	for i := range members {
		w.JoinCluster(fmt.Sprintf("member%d", i+1))
	}
	w.StartControllers(wrappers...)
	return w
}

// NewHub returns a world without clusters, whose controllers do not run.
func NewHub(t testing.TB, servers *env.Servers) World {
	t.Helper()
	return NewHubOn(t, servers, servers.Start)
}

// serverStart starts an API server as env.Start does.
type serverStart func(testing.TB, ...func(*envtest.Environment)) (*envtest.Environment, *rest.Config)

// NewHubOn returns a world as newHub does, whose hub is started otherwise.
func NewHubOn(t testing.TB, servers *env.Servers, start serverStart) World {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	environment, config := start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{definitions} })
	scheme, err := propagation.NewPropagationScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := World{
		TB: t, WithWatch: c, servers: servers, Environment: environment, Config: config, Options: &propagation.SetupOptions{
			Gates: Gates(t), Guard: dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, // where tests serve webhooks
		}, Limits: &selfconflict.Limits{},
		Ended: new(func() {}), Running: &[]*passes.Passes{}, Members: map[string]*Member{},
	}
	t.Cleanup(w.StopControllers)
	return w
}

// Gates returns the feature gates of the controllers, changed from their defaults.
func Gates(t testing.TB, changed ...string) features.GateSet {
	t.Helper()
	set, err := features.ParseFlags(features.HubPlacement, changed)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// JoinCluster adds a cluster, and starts its agent, which is faked.
func (w World) JoinCluster(name string) {
	w.Helper()
	w.AcceptCluster(name)
	go w.Agent(w.Context(), name)
}

// AcceptCluster adds a cluster.
func (w World) AcceptCluster(name string) {
	w.Helper()
	w.CreateAll(
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}},
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}})
}

// StartControllers starts the controllers.
func (w World) StartControllers(wrappers ...transport.WrapperFunc) {
	w.Helper()
	*w.Ended = w.RunControllers(wrappers...)
}

// RunControllers starts controllers, and returns what stops them.
func (w World) RunControllers(wrappers ...transport.WrapperFunc) (stop func()) {
	w.Helper()
	config := rest.CopyConfig(w.Config)
	for _, wrapper := range wrappers {
		config.Wrap(wrapper)
	}
	damper := selfconflict.NewDamper(*w.Limits, clock.RealClock{})
	config, err := damper.DampWrites(config)
	if err != nil {
		w.Fatal(err)
	}
	reconciled := passes.NewPasses()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: w.Scheme(), Cache: propagation.NewPropagationCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: reconciled.NewLogger(),
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		w.Fatal(err)
	}
	if err := errors.Join(propagation.SetupPropagationControllers(w.Context(), mgr, *w.Options), damper.SetupReporter(mgr, nil, propagation.SelfConflicts(mgr)...)); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	*w.Running = append(*w.Running, reconciled)
	return func() {
		w.Helper()
		*w.Running = slices.DeleteFunc(*w.Running, func(running *passes.Passes) bool { return running == reconciled })
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("running the controllers: %v", err)
		}
	}
}

// StopControllers stops the controllers, if they run.
func (w World) StopControllers() {
	w.Helper()
	(*w.Ended)()
	*w.Ended = func() {}
}

// CreateAll creates objects, one after the other.
func (w World) CreateAll(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.Create(w.Context(), object); err != nil {
			w.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Eventually waits until a check succeeds.
func (w World) Eventually(what string, check func() error) {
	w.Helper()
	until := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			w.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Agent says of each work of a cluster that it is applied, and lets it go when it
// is deleted.
func (w World) Agent(ctx context.Context, cluster string) {
	for ctx.Err() == nil {
		works := &workv1.ManifestWorkList{}
		_ = w.List(ctx, works, client.InNamespace(cluster)) // it is tried again
		for i := range works.Items {
			w.serve(ctx, &works.Items[i])
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w World) serve(ctx context.Context, work *workv1.ManifestWork) {
	if !work.DeletionTimestamp.IsZero() {
		work.Finalizers = nil
		_ = w.Update(ctx, work) // it is tried again
		return
	}
	if len(work.Status.Conditions) > 0 && work.Status.Conditions[0].ObservedGeneration == work.Generation {
		return
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		return
	}
	object.SetGeneration(1)
	runs(object)
	said := feedback.ReportedStateOf(object, interpret.Chain{native.NewKubernetesKinds()})
	if said.Failed != nil {
		return
	}
	applied := metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied", Message: "applied",
		ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now(),
	}
	work.Status.Conditions = []metav1.Condition{applied}
	applied.ObservedGeneration = 0
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		Conditions:     []metav1.Condition{applied},
		StatusFeedback: workv1.StatusFeedbackResult{Values: said.Values},
	}}
	_ = w.Status().Update(ctx, work) // it is tried again
}

// BrokenImage is an image of which no pod becomes ready in the cluster of a Work
// of namespace brokenIn.
const (
	BrokenImage = "nginx:broken"
	brokenIn    = "karmada-es-member2"
)

// runs gives an object of a cluster the status that its controllers would.
func runs(object *unstructured.Unstructured) {
	replicas, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if object.GetKind() != "Deployment" || !found {
		return
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if in := object.GetAnnotations()[workv1alpha2.AnnotationWorkNamespace]; in == brokenIn && strings.Contains(fmt.Sprint(containers...), BrokenImage) {
		object.Object["status"] = map[string]any{"observedGeneration": object.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas, "unavailableReplicas": replicas}
		return
	}
	object.Object["status"] = map[string]any{
		"observedGeneration": object.GetGeneration(), "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
		"conditions": []any{map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}},
	}
}

// Deployment returns a Deployment of namespace default.
func Deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}},
			},
		},
	}
}

// Policy returns a PropagationPolicy of namespace default for Deployments, as
// admission makes it.
func Policy(name string, placement policyv1alpha1.Placement) *policyv1alpha1.PropagationPolicy {
	return &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id-of-" + name},
			Finalizers: []string{policyv1alpha1.FinalizerPropagationPolicy},
		},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}, Placement: placement,
		},
	}
}

// RunsOn waits until a Deployment runs with these replicas on these clusters, and its
// status says so.
func (w World) RunsOn(name string, replicas map[string]int32) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s runs as %v", name, replicas), func() error {
		binding := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, binding); err != nil {
			return err
		}
		total := int32(0)
		if len(binding.Spec.Clusters) != len(replicas) {
			return fmt.Errorf("it is bound to %v", binding.Spec.Clusters)
		}
		for _, target := range binding.Spec.Clusters {
			if has, is := replicas[target.Name]; !is || has != target.Replicas {
				return fmt.Errorf("it is bound to %v", binding.Spec.Clusters)
			}
			total += target.Replicas
			if err := w.HasSent(name, target); err != nil {
				return err
			}
		}
		template := &appsv1.Deployment{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, template); err != nil {
			return err
		}
		if template.Status.ReadyReplicas != total || template.Status.ObservedGeneration != template.Generation {
			return fmt.Errorf("its status is %+v in generation %d, and the binding's %+v", template.Status, template.Generation, binding.Status)
		}
		return nil
	})
}

// HasSent checks the work of a Deployment for a cluster.
func (w World) HasSent(name string, target workv1alpha2.TargetCluster) error {
	works := &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), works, client.InNamespace(target.Name), client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
		return err
	}
	for i := range works.Items {
		object := &appsv1.Deployment{}
		if err := json.Unmarshal(works.Items[i].Spec.Workload.Manifests[0].Raw, object); err != nil {
			return err
		}
		if object.Name == name && object.Spec.Replicas != nil && *object.Spec.Replicas == target.Replicas {
			return nil
		}
	}
	return errors.New("cluster " + target.Name + " has not been sent it")
}
