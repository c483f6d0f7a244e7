// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/testing/env"
)

const (
	// Patience only decides how long a failure takes.
	Patience = time.Minute
	Apps     = "apps"
	tier     = "tier"
)

// Hub is an API server with clusters, all of which can be chosen in namespace
// apps.
type Hub struct {
	testing.TB
	client.WithWatch
	config *rest.Config
	scheme *runtime.Scheme
}

// NewHub starts an API server without clusters.
func NewHub(t testing.TB, servers *env.Servers) Hub {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := placement.NewPlacementScheme()
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
	h := Hub{TB: t, WithWatch: c, config: config, scheme: scheme}
	h.CreateAll(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Apps}},
		&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
			ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{}},
		}},
		&clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: Apps, Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
		})
	return h
}

// TakeHub returns a hub that no other test has, and takes its Placements away when the test ends.
func TakeHub(t testing.TB, hubs *env.Fixtures[Hub]) Hub {
	t.Helper()
	h := hubs.TakeFixture(t)
	h.TB = t
	env.WhenDone(t, func(t testing.TB) {
		for _, kind := range []client.Object{&clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}} {
			if err := h.DeleteAllOf(t.Context(), kind, client.InNamespace(Apps)); err != nil {
				t.Errorf("taking each %T away: %v", kind, err)
			}
		}
	})
	return h
}

// NoError ends the test on an error.
func (h Hub) NoError(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// CreateAll creates objects, one after the other.
func (h Hub) CreateAll(objects ...client.Object) {
	h.Helper()
	for _, o := range objects {
		h.NoError(h.Create(h.Context(), o))
	}
}

// ReadObject reads an object into one that may have been used before.
func (h Hub) ReadObject(o client.Object) {
	h.Helper()
	key := client.ObjectKeyFromObject(o)
	reflect.ValueOf(o).Elem().SetZero()
	h.NoError(h.Get(h.Context(), key, o))
}

// PatchObject changes an object as it is now, or its status.
func (h Hub) PatchObject(o client.Object, change func()) {
	h.Helper()
	h.ReadObject(o)
	before := deepcopy.CopyObject(o)
	change()
	after := deepcopy.CopyObject(o)
	h.NoError(h.Patch(h.Context(), o, client.MergeFrom(before)))
	h.NoError(h.Status().Patch(h.Context(), after, client.MergeFrom(before)))
}

// CreateClusters creates clusters named after their number.
func (h Hub) CreateClusters(from, to int, label string) {
	h.Helper()
	for i := from; i <= to; i++ {
		h.CreateAll(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: ClusterName(i), Labels: map[string]string{tier: label}}})
	}
}

// LabelCluster changes the tier of a cluster.
func (h Hub) LabelCluster(cluster, label string) {
	h.Helper()
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	h.PatchObject(c, func() { c.Labels = map[string]string{tier: label} })
}

// ClusterName returns the name of a cluster with a number.
func ClusterName(i int) string { return fmt.Sprintf("c%03d", i) }

// ClusterNames returns the names of clusters from a number to another.
func ClusterNames(from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, ClusterName(i))
	}
	return all
}

// Placing returns a Placement that chooses the clusters of a tier.
func Placing(placement, label string) *clusterv1beta1.Placement {
	return &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: Apps, Name: placement}, Spec: clusterv1beta1.PlacementSpec{
		Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{tier: label}},
		}}},
	}}
}

// Canaries makes the clusters of a tier the first group.
func Canaries(p *clusterv1beta1.Placement, label string) *clusterv1beta1.Placement {
	p.Spec.Predicates = nil
	p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{
		GroupName: "canary", ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{tier: label}}},
	}}
	return p
}

// AwaitNothingWrong waits until nothing is wrong.
func (h Hub) AwaitNothingWrong(wrong func() string) {
	h.Helper()
	for deadline := time.Now().Add(Patience); ; <-time.After(10 * time.Millisecond) {
		problem := wrong()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			h.Fatal(problem)
		}
	}
}

// ListsDecisions waits until exactly these PlacementDecisions are there, by number, with
// the labels, the owner and the status of the Placement that belong to them.
func (h Hub) ListsDecisions(p *clusterv1beta1.Placement, groups map[int][]string, numbers ...int) {
	h.Helper()
	h.AwaitNothingWrong(func() string { return h.Wrong(p, groups, numbers) })
}

// Wrong says what is wrong with the decisions, whose clusters by group are given.
func (h Hub) Wrong(p *clusterv1beta1.Placement, groups map[int][]string, numbers []int) string {
	h.ReadObject(p)
	list := &clusterv1beta1.PlacementDecisionList{}
	h.NoError(h.List(h.Context(), list, client.InNamespace(Apps), client.MatchingLabels{clusterv1beta1.LabelPlacement: p.Name}))
	var want []string
	for _, n := range numbers {
		want = append(want, fmt.Sprintf("%s-decision-%d", p.Name, n))
	}
	var got []string
	found, total := map[int][]string{}, 0
	for i := range list.Items {
		d := &list.Items[i]
		got = append(got, d.Name)
		if !metav1.IsControlledBy(d, p) || len(d.Status.Decisions) > clusterv1beta1.DecisionsMax || d.Status.Decisions == nil {
			return fmt.Sprintf("%s has %d decisions and owners %v", d.Name, len(d.Status.Decisions), d.OwnerReferences)
		}
		group := 0
		if _, err := fmt.Sscan(d.Labels[clusterv1beta1.LabelDecisionGroupIndex], &group); err != nil {
			return fmt.Sprintf("%s: the group's index is %q", d.Name, d.Labels[clusterv1beta1.LabelDecisionGroupIndex])
		}
		for _, decision := range d.Status.Decisions {
			found[group] = append(found[group], decision.ClusterName)
			total++
		}
	}
	slices.Sort(want)
	for _, clusters := range found {
		slices.Sort(clusters)
	}
	if !slices.Equal(got, want) || !maps.EqualFunc(found, groups, slices.Equal) {
		return fmt.Sprintf("the decisions are %v with %v, want %v with %v", got, found, want, groups)
	}
	if int(p.Status.NumberOfSelectedClusters) != total || len(p.Status.DecisionGroups) != max(1, len(groups)) {
		return fmt.Sprintf("the status is %+v", p.Status)
	}
	return ""
}

// errKilled is what a controller gets that is killed.
var errKilled = errors.New("killed")

// Writes are the writes of a controller.
type Writes struct {
	mu   sync.Mutex
	seen []string
	// Dies is the number of the write that is the last, 0 for none. If lost is set,
	// it takes place, and only the answer is lost.
	Dies int
	Lost bool
}

// around makes a write, notes it, and fails it if the controller is dead.
func (w *Writes) around(what string, o client.Object, write func() error) error {
	switch o.(type) {
	case *clusterv1beta1.Placement, *clusterv1beta1.PlacementDecision:
	default:
		return write()
	}
	w.mu.Lock()
	w.seen = append(w.seen, what+" "+o.GetName())
	n := len(w.seen)
	w.mu.Unlock()
	if w.Dies == 0 || n < w.Dies {
		return write()
	}
	if n == w.Dies && w.Lost {
		return errors.Join(errKilled, write())
	}
	return errKilled
}

// AllWrites returns the writes so far, as VERB NAME.
func (w *Writes) AllWrites() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// WritesOf returns the writes about a Placement.
func (w *Writes) WritesOf(placement string) []string {
	return slices.DeleteFunc(w.AllWrites(), func(write string) bool {
		_, object, _ := strings.Cut(write, " ")
		return object != placement && !strings.HasPrefix(object, placement+"-decision-")
	})
}

// controller is one that runs.
type controller struct {
	*Writes
	metrics *prometheus.Registry
	Stop    func()
}

// StartController starts a controller, until it is stopped or the test ends.
func (h Hub) StartController(w *Writes) controller {
	h.Helper()
	wrap := func(config *rest.Config, o client.Options) (client.Client, error) {
		c, err := client.NewWithWatch(config, o)
		if err != nil {
			return nil, err
		}
		return interceptor.NewClient(c, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.around("create", o, func() error { return c.Create(ctx, o, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return w.around("update", o, func() error { return c.Update(ctx, o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.around("delete", o, func() error { return c.Delete(ctx, o, opts...) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				return w.around(sub, o, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				return w.around(sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
			},
		}), nil
	}
	mgr, err := ctrl.NewManager(h.config, ctrl.Options{
		Scheme: h.scheme, NewClient: wrap, Cache: placement.NewPlacementCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	h.NoError(err)
	registry := prometheus.NewRegistry()
	h.NoError(placement.SetupPlacementController(h.Context(), mgr, placement.SetupOptions{Metrics: registry}))
	ctx, cancel := context.WithCancel(h.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Errorf("the manager: %v", err)
		}
	})
	h.Cleanup(stop)
	return controller{Writes: w, metrics: registry, Stop: stop}
}

// CountEvaluations is how often the controller has chosen clusters.
func (c controller) CountEvaluations(h Hub) int {
	h.Helper()
	families, err := c.metrics.Gather()
	h.NoError(err)
	for _, family := range families {
		if family.GetName() == "capstan_placement_evaluations_total" {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	h.Fatal("evaluations are not counted")
	return 0
}
