// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/projection"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// roundsMax is how often a test reconciles until nothing is left to do.
const roundsMax = 10

var errCrash = errors.New("the program crashed")

// lab is an API server, and the controller called by hand, so that a test says
// what happens between any two of its writes.
type lab struct {
	client.WithWatch
	// writes counts those of the controller.
	writes int
	// fail says what becomes of the write of this number: whether it is stored, and
	// the error that the controller gets. May be nil.
	fail func(write int) (stored bool, err error)
	// past, if there is one, is what the cache of the controller has of a
	// ManagedCluster.
	past       *clusterv1.ManagedCluster
	live       int // reads that are not from the cache
	events     *events.FakeRecorder
	controller *projection.ClusterProjectionController
}

// admins are of one API server for all tests: each has ManagedClusters of its own.
var admins = env.NewFixtures(servers, func(t testing.TB) client.WithWatch {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../../../config/crd"} })
	scheme, err := registration.NewRegistrationScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
})

func newLab(t *testing.T) *lab {
	t.Helper()
	admin := admins.ShareFixture(t)
	l := &lab{WithWatch: admin, events: events.NewFakeRecorder(100)}
	counted := interceptor.NewClient(admin, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if mc, ok := obj.(*clusterv1.ManagedCluster); ok && l.past != nil {
				l.past.DeepCopyInto(mc)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return l.write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return l.write(func() error { return c.Apply(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return l.write(func() error { return c.Delete(ctx, obj, opts...) })
		},
	})
	l.controller = projection.NewClusterProjectionController(projection.ClusterProjectionDeps{Client: counted, Live: liveReader{Reader: admin, reads: &l.live}, Events: l.events})
	return l
}

// liveReader counts the reads that are not from the cache.
type liveReader struct {
	client.Reader
	reads *int
}

func (r liveReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	*r.reads++
	return r.Reader.Get(ctx, key, obj, opts...)
}

func (l *lab) write(store func() error) error {
	l.writes++
	if l.fail == nil {
		return store()
	}
	stored, err := l.fail(l.writes)
	if err == nil || stored {
		err = errors.Join(err, store())
	}
	return err
}

// reconcile calls the controller once.
func (l *lab) reconcile(t *testing.T, name string) (ctrl.Result, error) {
	t.Helper()
	return conflict.RequeueConflicts(l.controller).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// settle calls it until nothing is left to do, and returns the writes.
func (l *lab) settle(t *testing.T, name string) int {
	t.Helper()
	begun := l.writes
	for range roundsMax {
		before := l.writes
		result, err := l.reconcile(t, name)
		if err != nil {
			t.Fatal(err)
		}
		if l.writes == before && result.IsZero() {
			return l.writes - begun
		}
	}
	t.Fatalf("the controller writes on and on: %d times", l.writes-begun)
	return 0
}

// make creates a ManagedCluster and has it mirrored.
func (l *lab) make(t *testing.T, name string, finalizers ...string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a", "old": "1"}, Finalizers: finalizers},
		Spec:       clusterv1.ManagedClusterSpec{Taints: []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelectIfNew}}},
	}
	if err := l.Create(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	l.settle(t, name)
}

func (l *lab) cluster(t *testing.T, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := l.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

func (l *lab) connection(t *testing.T, name string) *fleetv1alpha1.ClusterConnection {
	t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := l.Get(t.Context(), client.ObjectKey{Name: name}, connection); err != nil {
		t.Fatal(err)
	}
	return connection
}

// changes a ManagedCluster as a client of OCM does.
func (l *lab) changes(t *testing.T, name string, change func(*clusterv1.ManagedCluster)) {
	t.Helper()
	mc := l.cluster(t, name)
	change(mc)
	if err := l.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
}

// serves writes a ClusterConnection as the Cluster API does.
func (l *lab) serves(t *testing.T, name string, change func(*fleetv1alpha1.ClusterConnection)) {
	t.Helper()
	connection := l.connection(t, name)
	change(connection)
	if err := l.Update(t.Context(), connection); err != nil {
		t.Fatal(err)
	}
}
