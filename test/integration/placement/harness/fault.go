// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// deathsMin is how often a controller has to die for the test to mean anything.
const deathsMin = 10

// Outlive starts one controller after the other until everything is as declared.
func (w *world) Outlive() {
	w.Helper()
	deaths := 0
	for deadline := time.Now().Add(patience); w.DiffersFromDeclared() != nil; deaths++ {
		if time.Now().After(deadline) {
			w.Fatalf("after %d deaths: %v", deaths, w.DiffersFromDeclared())
		}
		c := w.StartController(&Controller{limit: 1, late: deaths%2 == 1})
		// What the one before has sent may be all that was missing.
		for !c.ended() && w.DiffersFromDeclared() != nil && time.Now().Before(deadline) {
			<-time.After(20 * time.Millisecond)
		}
		c.Kill()
	}
	w.Logf("as declared after %d deaths", deaths)
	if deaths < deathsMin {
		w.Errorf("%d deaths only", deaths)
	}
}

// Observe watches the decisions of a placement, and returns a function that waits until
// it has seen all that there is, ends this, and returns which changes made a cluster of
// the first n go missing.
func (w *world) Observe(name string, n int) func() []string {
	w.Helper()
	of := []client.ListOption{client.InNamespace(w.FleetName), client.MatchingLabels{clusterv1beta1.LabelPlacement: name}}
	watcher, err := w.Watch(w.Context(), &clusterv1beta1.PlacementDecisionList{}, of...)
	w.Must(err)
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
			w.Must(w.List(w.Context(), list, of...))
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

// Live lets a cluster come, change and, unless it is one in four, go.
func (w *world) Live(i int, lifetime time.Duration) error {
	<-time.After(lifetime / 2)
	if err := w.Create(w.Context(), w.Cluster(i)); err != nil {
		return err
	}
	<-time.After(lifetime / 4)
	if err := w.LabelCluster(w.Context(), i, RingLabel, []string{Canary, "rest"}[i%3%2]); err != nil {
		return err
	}
	<-time.After(lifetime / 4)
	if i%4 == 0 {
		return w.LabelCluster(w.Context(), i, EnvLabel, []string{"test", Prod}[i%3%2])
	}
	return w.Delete(w.Context(), w.Cluster(i))
}
