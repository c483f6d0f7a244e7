// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

// observe watches the decisions of a placement, and returns a function that waits until
// it has seen all that there is, ends this, and returns which changes made a cluster of
// the first n go missing.
func (w *world) observe(name string, n int) func() []string {
	w.Helper()
	of := []client.ListOption{client.InNamespace(w.name), client.MatchingLabels{clusterv1beta1.LabelPlacement: name}}
	watcher, err := w.Watch(w.Context(), &clusterv1beta1.PlacementDecisionList{}, of...)
	w.must(err)
	o := &observed{clusters: n, decisions: map[string]clusterv1beta1.PlacementDecision{}}
	go func() {
		for event := range watcher.ResultChan() {
			o.see(event)
		}
	}()
	return func() []string {
		defer watcher.Stop()
		w.eventually("the watch shows what there is", func() error {
			list := &clusterv1beta1.PlacementDecisionList{}
			w.must(w.List(w.Context(), list, of...))
			return o.caughtUp(list.Items)
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.missing
	}
}

// observed is what a watch has shown of decisions that list so many clusters.
type observed struct {
	clusters int

	mu        sync.Mutex
	decisions map[string]clusterv1beta1.PlacementDecision
	complete  bool     // all clusters were listed once: the first events are what was there
	missing   []string // when they were not, after that
}

func (o *observed) see(event watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := event.Object.(*clusterv1beta1.PlacementDecision)
	if !ok {
		o.missing = append(o.missing, fmt.Sprintf("the watch ended: %v", event.Object))
		return
	}
	if delete(o.decisions, d.Name); event.Type != watch.Deleted {
		o.decisions[d.Name] = *d
	}
	listed := map[string]bool{}
	for _, decision := range o.decisions {
		for _, c := range decision.Status.Decisions {
			listed[c.ClusterName] = true
		}
	}
	switch {
	case len(listed) == o.clusters:
		o.complete = true
	case o.complete:
		o.missing = append(o.missing, fmt.Sprintf("%d of %d at %s %s", len(listed), o.clusters, event.Type, d.Name))
	}
}

// caughtUp returns an error unless the watch has shown the decisions as they are.
func (o *observed) caughtUp(now []clusterv1beta1.PlacementDecision) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range now {
		if shown := o.decisions[d.Name].ResourceVersion; shown != d.ResourceVersion {
			return fmt.Errorf("it shows version %q of %s, which has %s", shown, d.Name, d.ResourceVersion)
		}
	}
	if len(o.decisions) != len(now) {
		return fmt.Errorf("it shows %d decisions, of which there are %d", len(o.decisions), len(now))
	}
	return nil
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
