// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// deathsMin is how often a controller has to die for the test to mean anything.
const deathsMin = 10

// testKilledAtEveryWrite lets no controller live longer than one write, which is
// carried out for every other. While clusters move from group to group, each
// is listed all the time.
func testKilledAtEveryWrite(w *world) {
	size := 60
	if *long {
		size = 300
	}
	w.all(size, func(ctx context.Context, i int) error { return w.Create(ctx, w.cluster(i)) })
	w.outlive()
	missing := w.observe("everywhere", size)
	w.all(size/3, func(ctx context.Context, i int) error { return w.label(ctx, i, ringLabel, canary) })
	w.all(size/4, func(ctx context.Context, i int) error { return w.label(ctx, i*2, envLabel, "test") })
	w.outlive()
	if seen := missing(); len(seen) > 0 {
		w.Errorf("clusters were missing for a moment: %v", seen)
	}
	w.settles(w.start(&controller{}))
}

// outlive starts one controller after the other until everything is as declared.
func (w *world) outlive() {
	w.Helper()
	deaths := 0
	for deadline := time.Now().Add(patience); w.exact() != nil; deaths++ {
		if time.Now().After(deadline) {
			w.Fatalf("after %d deaths: %v", deaths, w.exact())
		}
		c := w.start(&controller{limit: 1, late: deaths%2 == 1})
		// What the one before has sent may be all that was missing.
		for !c.ended() && w.exact() != nil && time.Now().Before(deadline) {
			<-time.After(20 * time.Millisecond)
		}
		c.kill()
	}
	w.Logf("as declared after %d deaths", deaths)
	if deaths < deathsMin {
		w.Errorf("%d deaths only", deaths)
	}
}

// observe watches the decisions of a placement, and returns a function that
// ends this and tells which changes made a cluster of the first n go missing.
func (w *world) observe(name string, n int) func() []string {
	w.Helper()
	of := []client.ListOption{client.InNamespace(w.name), client.MatchingLabels{clusterv1beta1.LabelPlacement: name}}
	watcher, err := w.Watch(w.Context(), &clusterv1beta1.PlacementDecisionList{}, of...)
	w.must(err)
	done, stopped := make(chan []string, 1), make(chan struct{})
	go func() {
		var missing []string
		slices, complete := map[string][]clusterv1beta1.ClusterDecision{}, false
		for event := range watcher.ResultChan() {
			d, ok := event.Object.(*clusterv1beta1.PlacementDecision)
			if !ok {
				select {
				case <-stopped:
				default:
					missing = append(missing, fmt.Sprintf("the watch ended: %v", event.Object))
				}
				break
			}
			if delete(slices, d.Name); event.Type != watch.Deleted {
				slices[d.Name] = d.Status.Decisions
			}
			listed := map[string]bool{}
			for _, decisions := range slices {
				for _, c := range decisions {
					listed[c.ClusterName] = true
				}
			}
			switch {
			case len(listed) == n:
				complete = true
			case complete: // the first events are what was there
				missing = append(missing, fmt.Sprintf("%d of %d at %s %s", len(listed), n, event.Type, d.Name))
			}
		}
		done <- missing
	}()
	return func() []string {
		<-time.After(still / 2) // the last event may be under way
		close(stopped)
		watcher.Stop()
		return <-done
	}
}

// testTwoControllersAtOnce has what an election prevents but for the moment in
// which a leader that lost it is still writing.
func testTwoControllersAtOnce(w *world) {
	size, rounds := 60, 4
	if *long {
		size, rounds = 300, 20
	}
	w.all(size, func(ctx context.Context, i int) error { return w.Create(ctx, w.cluster(i)) })
	running := []*controller{w.start(&controller{}), w.start(&controller{})}
	for round := range rounds {
		w.all(size/2, func(ctx context.Context, i int) error {
			if i%5 == round%5 {
				return w.label(ctx, i, ringLabel, []string{canary, "rest"}[round%2])
			}
			return w.label(ctx, i, envLabel, []string{prod, "test"}[(i+round)%2])
		})
		running[0].kill()
		running = append(running[1:], w.start(&controller{}))
	}
	w.settles(running...)
}

// testClustersComeAndGo has many clusters for a short time, with labels that
// change, and the controller killed in the midst of it.
func testClustersComeAndGo(w *world) {
	size, lifetime := 100, 4*time.Second
	if *long {
		size, lifetime = 500, time.Minute
	}
	c := w.start(&controller{})
	random := rand.New(rand.NewPCG(1, 2))
	lifetimes := make([]time.Duration, size)
	for i := range lifetimes {
		lifetimes[i] = time.Duration(random.Int64N(int64(lifetime)))
	}
	ended := make(chan error, size)
	for i := range size {
		go func() { ended <- w.live(i, lifetimes[i]) }()
	}
	<-time.After(lifetime / 2)
	c.kill()
	c = w.start(&controller{})
	var errs []error
	for range size {
		errs = append(errs, <-ended)
	}
	if failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(failed) > 0 {
		w.Fatal(failed[0])
	}
	w.settles(c)
}

// live lets a cluster come, change and, unless it is one in four, go.
func (w *world) live(i int, lifetime time.Duration) error {
	<-time.After(lifetime / 2)
	if err := w.Create(w.Context(), w.cluster(i)); err != nil {
		return err
	}
	<-time.After(lifetime / 4)
	if err := w.label(w.Context(), i, ringLabel, []string{canary, "rest"}[i%3%2]); err != nil {
		return err
	}
	<-time.After(lifetime / 4)
	if i%4 == 0 {
		return w.label(w.Context(), i, envLabel, []string{"test", prod}[i%3%2])
	}
	return w.Delete(w.Context(), w.cluster(i))
}
