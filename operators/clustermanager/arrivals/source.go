// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/watch"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

// PushClusterSource makes hubs be looked at whose Push clusters come or go. It is safe for
// concurrent use.
type PushClusterSource struct {
	scheme *runtime.Scheme

	mu sync.Mutex
	// ctx is the life of the controller, and queue what it has to look at; both are
	// nil until it runs.
	ctx     context.Context
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	watched map[string]watchedHub
}

// watchedHub is a hub that is watched with a credential.
type watchedHub struct {
	fingerprint string
	stop        context.CancelFunc
}

// NewPushClusterSource returns a PushClusterSource that watches no hub. The scheme knows ClusterConnections.
func NewPushClusterSource(scheme *runtime.Scheme) *PushClusterSource {
	return &PushClusterSource{scheme: scheme, watched: map[string]watchedHub{}}
}

// Start implements source.Source.
func (s *PushClusterSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	s.queue = queue
	return nil
}

// WatchHub watches the hub of a name from now on, unless it is watched with that
// credential already. It asks nothing of the hub itself, and does nothing before
// the controller runs.
func (s *PushClusterSource) WatchHub(hub string, credential probe.Credential) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.watched[hub].fingerprint == credential.Fingerprint {
		return nil
	}
	s.stopWatching(hub)
	config := rest.CopyConfig(credential.Config)
	config.QPS = -1 // the hub's own fairness decides
	connections, err := client.NewWithWatch(config, client.Options{Scheme: s.scheme})
	if err != nil {
		return fmt.Errorf("making a client that watches the hub %s: %w", credential.Host(), err)
	}
	ctx, stop := context.WithCancel(s.ctx)
	s.watched[hub] = watchedHub{fingerprint: credential.Fingerprint, stop: stop}
	queue := s.queue
	follower := watch.Watch[*fleetv1alpha1.ClusterConnection]{
		Source: watch.ReducedSource(connections, &fleetv1alpha1.ClusterConnectionList{}, fields.Everything(), reduceConnection),
		Handler: &pushArrivals{changed: func() {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: hub}})
		}},
	}
	go follower.RunReflector(dial.ReducedContext(ctx))
	return nil
}

// ForgetHub watches the hub of the name no longer.
func (s *PushClusterSource) ForgetHub(hub string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopWatching(hub)
}

func (s *PushClusterSource) stopWatching(hub string) {
	if known, ok := s.watched[hub]; ok {
		known.stop()
		delete(s.watched, hub)
	}
}

// reduceConnection returns what reports whether a cluster is a Push cluster.
func reduceConnection(whole *fleetv1alpha1.ClusterConnection) *fleetv1alpha1.ClusterConnection {
	return &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: whole.Name, ResourceVersion: whole.ResourceVersion},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: whole.Spec.SyncMode},
	}
}
