// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// probeClients is how many clients write at once, for the load and for the
	// probe that it is compared with.
	probeClients = 16
	// probePayloadBytes is the size of a plain object's data.
	probePayloadBytes = 1024
	// settle is how long joined clusters are left alone before they count as idle.
	settle = 20 * time.Second
)

// join starts n agents at once and waits until the watch has seen all clusters
// Available.
func (f *bench) join(ctx context.Context, n int) (time.Duration, error) {
	done := make(chan error, 1)
	watching := make(chan struct{})
	go func() { done <- f.awaitClusters(ctx, n, watching, clusterv1.ManagedClusterConditionAvailable) }()
	<-watching
	for i := range n {
		if err := f.fleet.PrepareAgent(ctx, f.agent(i)); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	for i := range n {
		if _, err := f.fleet.StartAgent(ctx, f.agent(i)); err != nil {
			return 0, err
		}
	}
	return f.waited(ctx, started, done)
}

// grow adds members until there are n, each with an agent.
func (f *bench) grow(ctx context.Context, n int) error {
	have := len(f.fleet.Members)
	if err := f.fleet.AddMembers(ctx, n-have); err != nil {
		return err
	}
	done := make(chan error, 1)
	watching := make(chan struct{})
	go func() { done <- f.awaitClusters(ctx, n, watching, clusterv1.ManagedClusterConditionAvailable) }()
	<-watching
	for i := have; i < n; i++ {
		agent := fleet.Agent{Number: i, Member: f.fleet.Members[i]}
		if err := makeNamespaces(ctx, agent.Member); err != nil {
			return err
		}
		if err := f.fleet.PrepareAgent(ctx, agent); err != nil {
			return err
		}
		if _, err := f.fleet.StartAgent(ctx, agent); err != nil {
			return err
		}
	}
	_, err := f.waited(ctx, time.Now(), done)
	return err
}

// accept creates n clusters that are accepted from the start and waits until
// the hub has made their permissions.
func (f *bench) accept(ctx context.Context, n int) (time.Duration, error) {
	done := make(chan error, 1)
	watching := make(chan struct{})
	go func() { done <- f.awaitClusters(ctx, n, watching, clusterv1.ManagedClusterConditionHubAccepted) }()
	<-watching
	started := time.Now()
	err := parallel(ctx, n, func(ctx context.Context, i int) error {
		return f.fleet.Hub.Client.Create(ctx, &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%d", i)},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
		})
	})
	if err != nil {
		return 0, err
	}
	return f.waited(ctx, started, done)
}

// probe is the limit: as many creations of small ConfigMaps.
func (f *bench) probe(ctx context.Context, writes int) (time.Duration, error) {
	data := map[string]string{"payload": strings.Repeat("x", probePayloadBytes)}
	started := time.Now()
	err := parallel(ctx, writes, func(ctx context.Context, i int) error {
		return f.fleet.Hub.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("probe-%d", i), Namespace: "default"}, Data: data,
		})
	})
	return time.Since(started), err
}

func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	return atOnce(ctx, probeClients, n, do)
}

// atOnce does something n times, by as many clients.
func atOnce(ctx context.Context, clients, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (f *bench) waited(ctx context.Context, started time.Time, done <-chan error) (time.Duration, error) {
	select {
	case err := <-done:
		if err != nil {
			return 0, fmt.Errorf("%w; logs are in %s", err, f.fleet.Path("logs"))
		}
		return time.Since(started), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// awaitClusters watches ManagedClusters until n have the condition. It closes
// watching when the watch is established.
func (f *bench) awaitClusters(ctx context.Context, n int, watching chan<- struct{}, condition string) error {
	watcher, err := f.fleet.Hub.Client.Watch(ctx, &clusterv1.ManagedClusterList{})
	close(watching)
	if err != nil {
		return err
	}
	defer func() { watcher.Stop() }()
	good := map[string]bool{}
	limit := time.NewTimer(10 * time.Minute)
	defer limit.Stop()
	for {
		select {
		case event, ok := <-watcher.ResultChan():
			if !ok {
				// An API server that is busy ends watches. A new one begins with all
				// clusters that there are.
				next, err := f.fleet.Hub.Client.Watch(ctx, &clusterv1.ManagedClusterList{})
				if err != nil {
					return fmt.Errorf("resuming the watch with %d of %d clusters %s: %w", len(good), n, condition, err)
				}
				watcher = next
				continue
			}
			cluster, ok := event.Object.(*clusterv1.ManagedCluster)
			if ok && meta.IsStatusConditionTrue(cluster.Status.Conditions, condition) {
				good[cluster.Name] = true
			}
			if len(good) == n {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("only %d of %d clusters became %s", len(good), n, condition)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// agent is the agent of a cluster; all are in the one member.
func (f *bench) agent(i int) fleet.Agent { return fleet.Agent{Number: i, Member: f.fleet.Members[0]} }

// idleness is what a fleet used while nothing happened.
type idleness struct {
	requests    fleet.Requests
	agents, hub fleet.Usage
}

func (f *bench) watchIdle(ctx context.Context, d time.Duration) (idleness, error) {
	requestsBefore, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
	if err != nil {
		return idleness{}, err
	}
	agentsBefore, err := fleet.Total(f.fleet.Agents)
	if err != nil {
		return idleness{}, err
	}
	hubBefore, err := fleet.Total(f.fleet.HubProcesses)
	if err != nil {
		return idleness{}, err
	}
	if err := fleet.Pause(ctx, d); err != nil {
		return idleness{}, err
	}
	requestsAfter, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
	if err != nil {
		return idleness{}, err
	}
	agents, err := fleet.Total(f.fleet.Agents)
	if err != nil {
		return idleness{}, err
	}
	hub, err := fleet.Total(f.fleet.HubProcesses)
	if err != nil {
		return idleness{}, err
	}
	agents.CPUSeconds -= agentsBefore.CPUSeconds
	hub.CPUSeconds -= hubBefore.CPUSeconds
	return idleness{requests: requestsAfter.Minus(requestsBefore), agents: agents, hub: hub}, nil
}

func scaled(r fleet.Requests, by float64) fleet.Requests {
	return fleet.Requests{All: r.All * by, Writes: r.Writes * by}
}

// patience is how long nothing may be heard of what is awaited.
const patience = 5 * time.Minute

// stream is a watch that one waits at. One that the server ends is resumed.
type stream[T client.Object] struct {
	client  client.WithWatch
	list    client.ObjectList
	options client.ListOptions
	watcher watch.Interface
}

// open begins to watch.
func open[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (*stream[T], error) {
	s := &stream[T]{client: c, list: list}
	s.options.ApplyOptions(options)
	s.options.Raw = &metav1.ListOptions{AllowWatchBookmarks: true} // or what has seen nothing for long could not be resumed
	return s, s.resume(ctx)
}

func (s *stream[T]) resume(ctx context.Context) (err error) {
	if s.watcher, err = s.client.Watch(ctx, s.list, &s.options); err != nil {
		return fmt.Errorf("watching %T: %w", s.list, err)
	}
	return nil
}

func (s *stream[T]) close() { s.watcher.Stop() }

// await returns when it saw the first event for which the function is true.
func (s *stream[T]) await(ctx context.Context, good func(watch.EventType, T) bool) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case event, ok := <-s.watcher.ResultChan():
			object, known := event.Object.(T)
			switch {
			case !ok:
				if err := s.resume(ctx); err != nil {
					return time.Time{}, err
				}
			case !known:
				return time.Time{}, fmt.Errorf("watching %T: %w", s.list, apierrors.FromObject(event.Object))
			default:
				s.options.Raw.ResourceVersion = object.GetResourceVersion()
				if event.Type == watch.Bookmark {
					continue
				}
				limit.Reset(patience)
				if good(event.Type, object) {
					return time.Now(), nil
				}
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("what was awaited of %T did not come in %s", s.list, patience)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// sight is when something was seen, or why not.
type sight struct {
	at  time.Time
	err error
}

// later awaits in the background.
func (s *stream[T]) later(ctx context.Context, good func(watch.EventType, T) bool) <-chan sight {
	seen := make(chan sight, 1)
	go func() {
		at, err := s.await(ctx, good)
		seen <- sight{at, err}
	}()
	return seen
}
