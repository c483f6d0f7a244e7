// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// worksNamespace has the objects of the works on the members, probeNamespace
	// what is written without an agent.
	worksNamespace = "works"
	probeNamespace = "probe"
	// roundLabel tells the works of one measurement from others.
	roundLabel = "bench.capstan.io/round"
	valueKey   = "value"
)

// load is a number of works, all alike.
type load struct {
	clusters, works, manifests int
	// payload is the size of each object's data in bytes.
	payload int
}

// delivery gives works to the clusters of a fleet and takes them back, and writes
// as much without an agent to compare with.
type delivery struct {
	fleet *fleet.Fleet
	round int
}

// next returns a number that nothing in the fleet is named by.
func (d *delivery) next() int {
	d.round++
	return d.round
}

// build returns the works of a load, which have names of their own.
func (d *delivery) build(l load) []*workv1.ManifestWork {
	round := fmt.Sprintf("r%d", d.next())
	var works []*workv1.ManifestWork
	for i := range l.works {
		for cluster := range l.clusters {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
				Namespace: clusterName(cluster), Name: fmt.Sprintf("%s-%d", round, i), Labels: map[string]string{roundLabel: round},
			}}
			for m := range l.manifests {
				work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
					manifest(configMap(worksNamespace, fmt.Sprintf("%s-%d", work.Name, m), "0", l.payload)))
			}
			works = append(works, work)
		}
	}
	return works
}

// clusterName is the cluster of the i-th agent.
func clusterName(i int) string { return fleet.Agent{Number: i}.Cluster() }

func configMap(namespace, name, value string, payload int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{valueKey: value, "payload": strings.Repeat("x", payload)},
	}
}

func manifest(object runtime.Object) workv1.Manifest {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // an object of a known type
	}
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
}

// reported reports whether the status says that the work, as it is now, is on the
// member.
func reported(work *workv1.ManifestWork) bool {
	for _, kind := range []string{workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable} {
		c := meta.FindStatusCondition(work.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != work.Generation {
			return false
		}
	}
	return true
}

// deliver creates works and returns when the last one's status is on the hub.
func (d *delivery) deliver(ctx context.Context, works []*workv1.ManifestWork) (time.Duration, error) {
	return d.untilAll(ctx, works,
		func(ctx context.Context, work *workv1.ManifestWork) error {
			return d.fleet.Hub.Client.Create(ctx, work)
		},
		func(_ watch.EventType, work *workv1.ManifestWork) bool { return reported(work) })
}

// remove deletes works and returns when the last one is gone.
func (d *delivery) remove(ctx context.Context, works []*workv1.ManifestWork) (time.Duration, error) {
	return d.untilAll(ctx, works,
		func(ctx context.Context, work *workv1.ManifestWork) error {
			return d.fleet.Hub.Client.Delete(ctx, work)
		},
		func(event watch.EventType, _ *workv1.ManifestWork) bool { return event == watch.Deleted })
}

// untilAll does something to all works of a round by parallel clients and
// returns how long it took until all were seen to be good.
func (d *delivery) untilAll(
	ctx context.Context, works []*workv1.ManifestWork,
	do func(context.Context, *workv1.ManifestWork) error, good func(watch.EventType, *workv1.ManifestWork) bool,
) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := open[*workv1.ManifestWork](ctx, d.fleet.Hub.Client, &workv1.ManifestWorkList{}, client.MatchingLabels(works[0].Labels))
	if err != nil {
		return 0, err
	}
	defer seen.close()
	done := map[client.ObjectKey]bool{}
	all := seen.later(ctx, func(event watch.EventType, work *workv1.ManifestWork) bool {
		if good(event, work) {
			done[client.ObjectKeyFromObject(work)] = true
		}
		return len(done) == len(works)
	})
	started := time.Now()
	if err := parallel(ctx, len(works), func(ctx context.Context, i int) error { return do(ctx, works[i]) }); err != nil {
		return 0, err
	}
	last := <-all
	if last.err != nil {
		return 0, fmt.Errorf("waiting for %d works: %w", len(works), last.err)
	}
	return last.at.Sub(started), nil
}

// probe is the limit: it writes the same works to a namespace without an agent,
// their objects to the members, and to each work the status that the first of
// the delivered ones has; then it deletes everything.
func (d *delivery) probe(ctx context.Context, l load, delivered *workv1.ManifestWork) (written, removed time.Duration, err error) {
	example := &workv1.ManifestWork{}
	if err := d.fleet.Hub.Client.Get(ctx, client.ObjectKeyFromObject(delivered), example); err != nil {
		return 0, 0, err
	}
	status, err := json.Marshal(map[string]any{"status": example.Status})
	if err != nil {
		return 0, 0, err
	}
	works := d.build(l)
	var write, remove []func(context.Context) error
	for i, work := range works {
		work.Name, work.Namespace = fmt.Sprintf("%s-%s", work.Name, work.Namespace), probeNamespace
		write = append(write, func(ctx context.Context) error {
			if err := d.fleet.Hub.Client.Create(ctx, work); err != nil {
				return err
			}
			return d.fleet.Hub.Client.Status().Patch(ctx, work, client.RawPatch("application/merge-patch+json", status))
		})
		remove = append(remove, func(ctx context.Context) error { return d.removeUnserved(ctx, work) })
		member := d.fleet.Members[i%l.clusters].Client
		for m := range l.manifests {
			object := configMap(probeNamespace, fmt.Sprintf("%s-%d", work.Name, m), "0", l.payload)
			write = append(write, func(ctx context.Context) error { return member.Create(ctx, object) })
			remove = append(remove, func(ctx context.Context) error { return member.Delete(ctx, object) })
		}
	}
	if written, err = timed(ctx, write); err != nil {
		return 0, 0, err
	}
	removed, err = timed(ctx, remove)
	return written, removed, err
}

// removeUnserved deletes a work that no agent takes care of.
func (d *delivery) removeUnserved(ctx context.Context, work *workv1.ManifestWork) error {
	if err := d.fleet.Hub.Client.Delete(ctx, work); err != nil {
		return err
	}
	err := d.fleet.Hub.Client.Patch(ctx, work, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	if apierrors.IsNotFound(err) { // it had none
		return nil
	}
	return err
}

func timed(ctx context.Context, all []func(context.Context) error) (time.Duration, error) {
	started := time.Now()
	err := parallel(ctx, len(all), func(ctx context.Context, i int) error { return all[i](ctx) })
	return time.Since(started), err
}

// withHundred delivers a hundred works of one manifest, calls do and deletes them.
func (d *delivery) withHundred(ctx context.Context, do func([]*workv1.ManifestWork) error) error {
	works := d.build(load{clusters: 1, works: 100, manifests: 1, payload: probePayloadBytes})
	if _, err := d.deliver(ctx, works); err != nil {
		return err
	}
	if err := do(works); err != nil {
		return err
	}
	_, err := d.remove(ctx, works)
	return err
}

// plainWrite is the limit for what happens one after the other: a write to the
// member while nothing else is written.
func (d *delivery) plainWrite(ctx context.Context) (time.Duration, error) {
	started := time.Now()
	err := d.fleet.Members[0].Client.Create(ctx, configMap(probeNamespace, fmt.Sprintf("plain-%d", d.next()), "0", probePayloadBytes))
	return time.Since(started), err
}

// small delivers a work of one manifest, deletes it, and returns how many
// milliseconds the delivery took.
func (d *delivery) small(ctx context.Context) (float64, error) {
	works := d.build(load{clusters: 1, works: 1, manifests: 1})
	took, err := d.deliver(ctx, works)
	if err != nil {
		return 0, err
	}
	_, err = d.remove(ctx, works)
	return milliseconds(took), err
}

// floodSample is how often it is looked how many works wait.
const floodSample = 5 * time.Second

// backlog counts works that were created, and those with a status.
type backlog struct {
	mu                sync.Mutex
	created, reported int
}

func (l *backlog) add(created, reported int) (waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created += created
	l.reported += reported
	return l.created - l.reported
}

// flood delivers far more works than can be applied at once to one cluster,
// small ones beside them, and looks all the while how many wait. It deletes
// nothing.
func (b *workBench) flood(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := b.works.build(load{clusters: 1, works: b.floodWorks, manifests: 1, payload: probePayloadBytes})
	seen, err := open[*workv1.ManifestWork](ctx, b.fleet.Hub.Client, &workv1.ManifestWorkList{}, client.MatchingLabels(made[0].Labels))
	if err != nil {
		return err
	}
	defer seen.close()
	var all backlog
	ended := make(chan error, 2)
	started := time.Now()
	go func() {
		ended <- parallel(ctx, len(made), func(ctx context.Context, i int) error {
			defer all.add(1, 0)
			return b.fleet.Hub.Client.Create(ctx, made[i])
		})
	}()
	go func() { ended <- all.untilReported(ctx, seen, len(made)) }()
	var small []float64
	beside, stop := context.WithCancel(ctx)
	besides := make(chan error, 1)
	go func() {
		for {
			began := time.Now()
			took, err := b.works.small(beside)
			if beside.Err() != nil {
				took = milliseconds(time.Since(began)) // it waits to the end
			}
			small = append(small, took)
			if err != nil {
				besides <- err
				return
			}
		}
	}()
	most, memory, err := b.watchFlood(ended, started, &all)
	took := time.Since(started)
	smallFailed := beside.Err() == nil && len(besides) > 0
	stop()
	if last := <-besides; err == nil && smallFailed {
		err = fmt.Errorf("a small work beside the others: %w", last)
	}
	if err != nil || len(small) == 0 {
		return fmt.Errorf("delivering %d works, with %d small ones beside: %w", len(made), len(small), err)
	}
	b.figure(floodFigure).add(took.Seconds(), 0)
	b.figure(floodRateFigure).add(float64(len(made))/took.Seconds(), 0)
	b.figure(floodDepthFigure).add(float64(most), 0)
	b.figure(floodMemoryFigure).add(memory, 0)
	b.figure(floodSmallFigure).add(slices.Max(small)/1000, 0)
	b.figure(floodSmallsFigure).add(float64(len(small)), 0)
	return nil
}

// untilReported counts the works that have their first status.
func (l *backlog) untilReported(ctx context.Context, seen *stream[*workv1.ManifestWork], works int) error {
	done := make(map[string]bool, works)
	for len(done) < works {
		_, err := seen.await(ctx, func(_ watch.EventType, work *workv1.ManifestWork) bool {
			if !reported(work) || done[work.Name] {
				return false
			}
			done[work.Name] = true
			l.add(0, 1)
			return true
		})
		if err != nil {
			return fmt.Errorf("after %d of %d works: %w", len(done), works, err)
		}
	}
	return nil
}

// watchFlood returns when both that create and that count have ended: how many
// works waited at the most, and the largest memory of the agent, in MiB.
func (b *workBench) watchFlood(ended <-chan error, started time.Time, all *backlog) (most int, memory float64, err error) {
	ticker := time.NewTicker(floodSample)
	defer ticker.Stop()
	var used fleet.Usage
	for running := 2; running > 0; {
		select {
		case err := <-ended:
			if err != nil {
				return 0, 0, err
			}
			running--
		case <-ticker.C:
			if used, err = b.fleet.Agents[0].Usage(); err != nil {
				return 0, 0, err
			}
			waiting := all.add(0, 0)
			most, memory = max(most, waiting), max(memory, used.AnonMiB)
			fmt.Fprintf(os.Stderr, "%4.0f s: %5d works wait, %.1f MiB\n", time.Since(started).Seconds(), waiting, used.AnonMiB)
		}
	}
	return most, memory, nil
}

const (
	// foreignObjects are how many objects of the same kind that are not ours are
	// put into the member.
	foreignObjects = 50000
	// memorySettle is how long an agent is left alone before its memory counts.
	memorySettle = 25 * time.Second
)
