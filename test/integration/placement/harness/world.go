// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/passes"
)

const (
	// patience only decides how long a failure takes.
	patience = 2 * time.Minute
	// clients is how many requests of the test are under way at a time.
	clients = 16

	fleetLabel, EnvLabel, RingLabel = "fleet", "env", "ring"
	Prod, Canary                    = "prod", "canary"
	// few is how many clusters one of the placements wants, and groupSize how many
	// a group of another has at most.
	few, groupSize = 7, 20
)

// world is a hub with a fleet, and placements of all sorts.
type world struct {
	testing.TB
	client.WithWatch
	config    *rest.Config
	set       *clusterv1beta2.ManagedClusterSet
	FleetName string // of the fleet and of the namespace
}

// NewWorld returns a world whose placements choose from a fleet that has no cluster yet.
func NewWorld(t testing.TB, servers *env.Servers, name string) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, restConfig := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, WithWatch: c, config: restConfig, FleetName: name}
	w.furnish()
	return w
}

// furnish makes the namespace with its set, and the placements.
func (w *world) furnish() {
	w.CreateObject(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.FleetName}})
	w.set = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: w.FleetName}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{fleetLabel: w.FleetName}},
		},
	}}
	w.CreateObject(w.set)
	w.CreateObject(&clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.FleetName, Name: w.FleetName}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: w.FleetName},
	})
	everywhere := clusterv1beta1.PlacementSpec{}
	everywhere.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup.IntVal = groupSize
	everywhere.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{GroupName: Canary, ClusterSelector: clusterv1beta1.GroupClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{RingLabel: Canary}},
	}}}
	byLabel := clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{EnvLabel: Prod}},
	}}}}
	some := byLabel
	some.NumberOfClusters = new(int32(few))
	// Balance would let the choice depend on the decisions of the others.
	some.PrioritizerPolicy = clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{
			ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Steady"}, Weight: 1,
		}},
	}
	for name, spec := range map[string]clusterv1beta1.PlacementSpec{"everywhere": everywhere, "prod": byLabel, "few": some} {
		w.CreateObject(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.FleetName, Name: name}, Spec: spec})
	}
}

// Cluster returns a cluster of the fleet, which is not on the hub yet.
func (w *world) Cluster(i int) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%03d", w.FleetName, i), Labels: map[string]string{fleetLabel: w.FleetName, EnvLabel: []string{Prod, "test"}[i%2]},
	}}
}

// EachOf does something n times, several at a time.
func (w *world) EachOf(n int, do func(ctx context.Context, i int) error) {
	w.Helper()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(clients)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	w.Must(group.Wait())
}

// LabelCluster changes a label of a cluster.
func (w *world) LabelCluster(ctx context.Context, i int, key, value string) error {
	return w.Patch(ctx, w.Cluster(i), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)))
}

// CreateObject creates an object.
func (w *world) CreateObject(o client.Object) {
	w.Helper()
	w.Must(w.Create(w.Context(), o))
}

// Must ends the test on an error.
func (w *world) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// errKilled is what the writes of a dead controller end with.
var errKilled = errors.New("the controller is dead")

// Controller is one life of the controller.
type Controller struct {
	// limit is at which write it dies, from 1; 0 is never. The write is carried out
	// if late is true, but nobody hears the answer.
	limit int
	late  bool

	passes *passes.Passes

	mu     sync.Mutex
	writes int
	dead   bool
	cancel context.CancelFunc
	done   chan error
}

// StartController starts a controller. The test waits for its end.
func (w *world) StartController(c *Controller) *Controller {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	c.cancel, c.done, c.passes = cancel, make(chan error, 1), passes.NewPasses()
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: w.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: placement.NewPlacementCacheOptions(), Logger: c.passes.NewLogger(),
		Controller: config.Controller{SkipNameValidation: new(true)},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			inner, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(inner, c.funcs()), nil
		},
	})
	w.Must(err)
	w.Must(placement.SetupPlacementController(ctx, mgr, placement.SetupOptions{}))
	go func() { c.done <- mgr.Start(ctx) }()
	w.Cleanup(c.Kill)
	return c
}

// Kill ends the controller at once: what it is about to write is not written.
func (c *Controller) Kill() {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.cancel()
	c.done <- <-c.done // it may be asked again
}

// ended reports whether the controller has died.
func (c *Controller) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// funcs count what the controller writes, and end it.
func (c *Controller) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return c.write(ctx, o, func(ctx context.Context) error { return inner.Create(ctx, o, options...) })
		},
		Delete: func(ctx context.Context, inner client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return c.write(ctx, o, func(ctx context.Context) error { return inner.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, inner client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return c.write(ctx, o, func(ctx context.Context) error { return inner.SubResource(sub).Update(ctx, o, options...) })
		},
		SubResourcePatch: func(ctx context.Context, inner client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return c.write(ctx, o, func(ctx context.Context) error { return inner.SubResource(sub).Patch(ctx, o, patch, options...) })
		},
	}
}

func (c *Controller) write(ctx context.Context, o client.Object, do func(context.Context) error) error {
	switch o.(type) {
	case *clusterv1beta1.Placement, *clusterv1beta1.PlacementDecision:
	default:
		return do(ctx) // it asks what it may
	}
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return errKilled
	}
	c.writes++
	last := c.limit > 0 && c.writes == c.limit
	c.dead = last
	c.mu.Unlock()
	if !last {
		return do(ctx)
	}
	defer c.cancel()
	if c.late {
		return errors.Join(do(context.WithoutCancel(ctx)), errKilled) // the others that fail would take it back
	}
	return errKilled
}

func (c *Controller) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}
