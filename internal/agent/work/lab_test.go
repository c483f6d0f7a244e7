// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// patience is how long a test waits for what should take milliseconds.
const patience = time.Minute

// lab is an API server that is hub and member at once.
type lab struct {
	environment *envtest.Environment
	config      *rest.Config
	client      client.Client
	// scenes counts those that were made, as no two may have a cluster of the same name.
	scenes atomic.Int64
}

func newLab(t testing.TB) *lab {
	t.Helper()
	environment, config := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{filepath.Join("..", "..", "..", "config", "crd")}
	})
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authorizationv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, rbacv1.AddToScheme, workv1.AddToScheme, clusterv1.AddToScheme, configv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &lab{environment: environment, config: config, client: c}
}

// scene is a cluster in the lab with a hub of its own name.
type scene struct {
	*lab
	t       testing.TB
	cluster string
}

// scene makes the namespace of the cluster on the hub, and one of the same
// name with "-member" for its objects. The cluster has the name, with a number.
func (l *lab) scene(t testing.TB, name string) *scene {
	t.Helper()
	s := &scene{lab: l, t: t, cluster: fmt.Sprintf("%s-%d", name, l.scenes.Add(1))}
	for _, name := range []string{s.cluster, s.ns()} {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return s
}

func (s *scene) ns() string { return s.cluster + "-member" }

func (s *scene) create(object client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), object); err != nil {
		s.t.Fatalf("creating %s: %v", object.GetName(), err)
	}
}

// agent is a running agent.
type agent struct {
	stop func()
	part *ManifestWorkPart
}

// agentOptions change an agent.
type agentOptions struct {
	wrap    func(http.RoundTripper) http.RoundTripper
	spoke   *rest.Config
	hub     string
	agentID string
	cluster string // the namespace on the hub, that of the scene by default
	part    PartOptions
}

// start runs an agent for the cluster until the test ends or it is stopped.
func (s *scene) start(options agentOptions) *agent {
	s.t.Helper()
	hubConfig, spokeConfig := rest.CopyConfig(s.config), rest.CopyConfig(s.config)
	if options.spoke != nil {
		spokeConfig = rest.CopyConfig(options.spoke)
	}
	if options.wrap != nil {
		hubConfig.Wrap(options.wrap)
		spokeConfig.Wrap(options.wrap)
	}
	options.cluster = cmp.Or(options.cluster, s.cluster)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: options.cluster}}
	if err := s.client.Create(s.t.Context(), mc); client.IgnoreAlreadyExists(err) != nil {
		s.t.Fatal(err)
	}
	hub, err := connect.HubCluster(hubConfig, options.cluster)
	if err != nil {
		s.t.Fatal(err)
	}
	spoke, err := connect.MemberCluster(spokeConfig)
	if err != nil {
		s.t.Fatal(err)
	}
	options.part.Logger = logr.Discard()
	options.part.ListDelay = cmp.Or(options.part.ListDelay, time.Millisecond)
	part, err := NewManifestWorkPart(options.part)
	if err != nil {
		s.t.Fatal(err)
	}
	if options.hub == "" {
		options.hub = "https://" + s.cluster
	}
	if options.agentID == "" {
		options.agentID = "agent-of-" + s.cluster
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	registry := fleet.NewRegistry(fleet.RegistryOptions{Parts: []fleet.Part{part}})
	ended := make(chan error, 1)
	go func() { ended <- part.Start(ctx) }()
	if err := registry.Engage(ctx, &fleet.Connection{
		Name: fleet.ClusterName(options.cluster), AgentID: options.agentID, HubHost: options.hub, Hub: hub, Spoke: spoke,
	}); err != nil {
		s.t.Fatal(err)
	}
	var stopped atomic.Bool
	a := &agent{part: part, stop: func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		registry.Close()
		if err := <-ended; err != nil {
			s.t.Errorf("the part ended with %v", err)
		}
	}}
	s.t.Cleanup(a.stop)
	return a
}

// eventually waits until the check returns nil.
func (s *scene) eventually(what string, check func() error) {
	s.t.Helper()
	s.within(patience, what, check)
}

// within waits for a time until the check returns nil.
func (s *scene) within(patience time.Duration, what string, check func() error) {
	s.t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if last = check(); last == nil {
			return
		}
	}
	s.t.Fatalf("%s: %v", what, last)
}

// work returns a ManifestWork with the manifests, each a JSON text.
func (s *scene) work(name string, manifests ...string) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster, Name: name}}
	setManifests(work, manifests...)
	return work
}

func setManifests(work *workv1.ManifestWork, manifests ...string) {
	work.Spec.Workload.Manifests = nil
	for _, m := range manifests {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
}

// change changes a work, again if someone else wrote it meanwhile.
func (s *scene) change(name string, change func(*workv1.ManifestWork)) {
	s.t.Helper()
	s.eventually("changing work "+name, func() error {
		work, err := s.get(name)
		if err != nil {
			return err
		}
		change(work)
		return s.client.Update(s.t.Context(), work)
	})
}

func (s *scene) get(name string) (*workv1.ManifestWork, error) {
	work := &workv1.ManifestWork{}
	return work, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.cluster, Name: name}, work)
}

func (s *scene) delete(name string) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), s.work(name)); err != nil {
		s.t.Fatalf("deleting work %q: %v", name, err)
	}
}

// condition waits until the work has the condition at its present generation,
// and returns the work.
func (s *scene) condition(name, conditionType string, status metav1.ConditionStatus) *workv1.ManifestWork {
	s.t.Helper()
	var found *workv1.ManifestWork
	s.eventually(fmt.Sprintf("work %s %s=%s", name, conditionType, status), func() error {
		work, err := s.get(name)
		if err != nil {
			return err
		}
		found = work
		c := meta.FindStatusCondition(work.Status.Conditions, conditionType)
		if c == nil || c.Status != status || c.ObservedGeneration != work.Generation {
			text, _ := json.Marshal(work.Status)
			return fmt.Errorf("generation %d: %s", work.Generation, text)
		}
		return nil
	})
	return found
}

func (s *scene) gone(name string) {
	s.t.Helper()
	s.eventually("work "+name+" is gone", func() error {
		work, err := s.get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		text, _ := json.Marshal(work)
		return errors.Join(err, fmt.Errorf("still there: %s", text))
	})
}

// configMap returns the JSON of a ConfigMap in the member's namespace.
func (s *scene) configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"key":%q}}`, name, s.ns(), value)
}

// value returns the value in a ConfigMap of the member.
func (s *scene) value(name string) (*corev1.ConfigMap, string, error) {
	cm := &corev1.ConfigMap{}
	err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, cm)
	return cm, cm.Data["key"], err
}

// has waits until the ConfigMap has the value.
func (s *scene) has(name, value string) *corev1.ConfigMap {
	s.t.Helper()
	var found *corev1.ConfigMap
	s.eventually(fmt.Sprintf("configmap %s is %q", name, value), func() error {
		cm, got, err := s.value(name)
		found = cm
		if err == nil && got != value {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	return found
}

// hasNot waits until the ConfigMap is gone.
func (s *scene) hasNot(name string) {
	s.t.Helper()
	s.eventually("configmap "+name+" is gone", func() error {
		_, _, err := s.value(name)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// nothingLeft fails if the member still has records or objects of the cluster.
func (s *scene) nothingLeft() {
	s.t.Helper()
	s.eventually("nothing is left", func() error {
		records := &workv1.AppliedManifestWorkList{}
		if err := s.client.List(s.t.Context(), records); err != nil {
			return err
		}
		for i := range records.Items {
			if records.Items[i].Spec.AgentID == "agent-of-"+s.cluster {
				return fmt.Errorf("record %s with finalizers %v", records.Items[i].Name, records.Items[i].Finalizers)
			}
		}
		maps := &corev1.ConfigMapList{}
		if err := s.client.List(s.t.Context(), maps, client.InNamespace(s.ns()), client.HasLabels{workv1.LabelManaged}); err != nil {
			return err
		}
		for i := range maps.Items {
			return fmt.Errorf("configmap %s", maps.Items[i].Name)
		}
		return nil
	})
}

func message(work *workv1.ManifestWork, ordinal int, conditionType string) string {
	for i := range work.Status.ResourceStatus.Manifests {
		m := &work.Status.ResourceStatus.Manifests[i]
		if int(m.ResourceMeta.Ordinal) != ordinal {
			continue
		}
		if c := meta.FindStatusCondition(m.Conditions, conditionType); c != nil {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

func (s *scene) contains(got string, wants ...string) {
	s.t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			s.t.Errorf("%q does not contain %q", got, want)
		}
	}
}

func unstructuredOf(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// writes counts the requests that change something, and fails those for which
// it is told to.
type writes struct {
	http.RoundTripper
	count *atomic.Int64
	// fail tells what happens to the n-th write, from 1.
	fail func(n int64) failure
}

type failure uint8

const (
	failNot     failure = iota
	failUnsent          // the server does not get it
	failUnheard         // the server does it, and we do not hear the answer
)

var errKilled = errors.New("the test cut the connection")

func (w *writes) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return w.RoundTripper.RoundTrip(request)
	}
	n := w.count.Add(1)
	how := failNot
	if w.fail != nil {
		how = w.fail(n)
	}
	if how == failUnsent {
		return nil, errKilled
	}
	response, err := w.RoundTripper.RoundTrip(request)
	if err == nil && how == failUnheard {
		_ = response.Body.Close()
		return nil, errKilled
	}
	return response, err
}
