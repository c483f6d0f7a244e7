// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestNamespacesGoToManyClustersAtAPace has many clusters join, each of which gets all namespaces of the hub: what is
// written for them is bounded, however many there are, and they have all of it in the end. Some can be sent nothing, as the
// hub has no namespace for them: they are tried again and again, and hold up nobody.
func TestNamespacesGoToManyClustersAtAPace(t *testing.T) {
	const clusters, namespaces, writers, lost = 10, 6, 16384, "lost"
	const burst, rate = allowance.DefaultShared / 4 / writers, allowance.DefaultShared / 1024 / writers
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), workv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0)
	clk := clocktesting.NewFakePassiveClock(start)
	allowed := allowance.NewAllowance(clk, allowance.DefaultShared, writers)
	var written atomic.Int64
	var works atomic.Int64
	hub := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if object.GetNamespace() == lost {
				return apierrors.NewNotFound(corev1.Resource("namespaces"), lost)
			}
			if work, is := object.(*workv1.ManifestWork); is {
				works.Add(1)
				written.Add(allowance.WorkBytes(work))
				defer allowed.ObserveWork(nil, work)
			}
			return c.Create(ctx, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if found, is := list.(*workv1.ManifestWorkList); is {
				for i := range found.Items {
					slim, failed := deliver.SlimWork(&found.Items[i])
					err = errors.Join(err, failed)
					found.Items[i] = *slim.(*workv1.ManifestWork)
				}
			}
			return err
		},
	}).WithIndex(&workv1.ManifestWork{}, IndexNamespace, func(object client.Object) []string { return []string{deliver.OfNamespace(object)} })
	names := []string{lost}
	for i := range clusters {
		names = append(names, fmt.Sprint("edge-", i))
	}
	for _, name := range names {
		hub.WithObjects(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}})
	}
	for i := range namespaces {
		hub.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("shop-", i)}})
	}
	c := hub.Build()
	controller := NewNamespaceController(NamespaceDeps{
		Client: c, Live: c, Writer: send.WorkWriter{Client: c, Live: c, Created: ownwrites.NewCreatedWorks(clk), Restless: send.NewRestlessWorks(clk)},
		Allowance: allowed, Events: events.NewDiscardRecorder(), Clock: clk, Everywhere: true, Fleet: fleet.NewFleet(clk),
	})
	for looks := 0; works.Load() < clusters*namespaces; looks++ {
		next := time.Duration(0)
		for i := range namespaces {
			result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: fmt.Sprint("shop-", i)}})
			if err != nil {
				t.Fatal(err)
			}
			next = max(next, result.RequeueAfter)
		}
		passed := int64(clk.Now().Sub(start).Seconds())
		if most := int64(burst) + passed*rate + 4<<10; written.Load() > most { // it is a work after which there is no more
			t.Fatalf("%d bytes are written in %d seconds, want %d at most", written.Load(), passed, most)
		}
		if looks == 100 {
			t.Fatalf("after %d looks, there are %d works of %d", looks, works.Load(), clusters*namespaces)
		}
		clk.SetTime(clk.Now().Add(next))
	}
	if written.Load() < 2*burst {
		t.Errorf("%d bytes are written, which says nothing about a pace of %d at once", written.Load(), burst)
	}
}
