// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/env"
)

var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

// stores has a client store revisions of a rollout, each of another object.
func stores(t *testing.T, c client.Client, rollout types.UID, count int) {
	t.Helper()
	for n := range count {
		r := &fleetv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", rollout, n), Labels: map[string]string{labelRollout: string(rollout)},
		}}
		r.Spec = fleetv1alpha1.PropagationRevisionSpec{
			RolloutNamespace: "shop", RolloutName: string(rollout), BindingNamespace: "shop", BindingName: fmt.Sprint(n), Revision: 1, Content: []byte("x"),
		}
		if err := c.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRevisionsOfARolloutThatEndsKeepNobodyWaiting has a rollout go that has many revisions,
// while the controller runs and while it does not.
func TestRevisionsOfARolloutThatEndsKeepNobodyWaiting(t *testing.T) {
	const count = 10 * pageSize
	h := newHub(t)
	h.look()
	ended := h.rollout.DeepCopy()
	ended.Name, ended.UID, ended.ResourceVersion = "ended", "ended", ""
	ended.Spec.Policy = &fleetv1alpha1.RolloutPolicy{Name: "ended"}
	if err := h.Create(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	stores(t, h, ended.UID, count)
	h.restart()
	h.deletes = 0
	if err := h.Delete(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	h.deletes = 0
	h.stages.RemoveRollout(client.ObjectKeyFromObject(ended))
	h.sweeps(count/pageSize, 1)

	stores(t, h, "orphan", count)
	h.restart()
	h.sweeps(count/pageSize, 1)
	h.sweeps(0, 1)
}

// sweeps checks that nothing was deleted yet, and that the rest is by so many requests.
func (h *hub) sweeps(requests, left int) {
	h.Helper()
	if h.deletes > 0 {
		h.Errorf("%d requests for revisions that nobody needs came before others had what they are to get", h.deletes)
	}
	if err := (RevisionSweeper{h.stages}).sweepRevisions(h.Context()); err != nil {
		h.Fatal(err)
	}
	if h.deletes > requests {
		h.Errorf("they are deleted by %d requests, want %d", h.deletes, requests)
	}
	if names := h.revisions(); len(names) != left {
		h.Errorf("the revisions are %v", names)
	}
	h.deletes = 0
}

// TestRevisionsOfARolloutThatGoesUnreadAreDeleted has a rollout be about another policy, and go
// before the objects of that could be read.
func TestRevisionsOfARolloutThatGoesUnreadAreDeleted(t *testing.T) {
	h := newHub(t)
	h.look()
	if len(h.revisions()) == 0 {
		t.Fatal("nothing is stored")
	}
	key := client.ObjectKeyFromObject(h.rollout)
	h.stages.removeRollout(key, false)
	h.stages.RemoveRollout(key)
	if err := (RevisionSweeper{h.stages}).sweepRevisions(t.Context()); err != nil || len(h.revisions()) > 0 || len(h.stages.garbage.by) > 0 {
		t.Errorf("%v stay, and %v are to be deleted: %v", h.revisions(), h.stages.garbage, err)
	}
}

// TestGarbageOfOthersTakesNoTime compares looks for the garbage of a binding while another has much with those while
// it has little.
func TestGarbageOfOthersTakesNoTime(t *testing.T) {
	const much, looks, slower = 100_000, 100, 50
	took := func(names int) time.Duration {
		h := newHub(t)
		for n := range names {
			h.stages.garbage.addRevisions(types.NamespacedName{Namespace: "school", Name: "timetable"}, []revision{{name: fmt.Sprint(n)}})
		}
		least := time.Hour
		for range 10 {
			begun := time.Now()
			for range looks {
				if err := h.stages.dropGarbage(t.Context(), client.ObjectKeyFromObject(h.binding)); err != nil {
					t.Fatal(err)
				}
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	if few, many := took(1), took(much); many > slower*few {
		t.Errorf("looks take %s while another has %d revisions to delete, and %s while it has one", many, much, few)
	}
}

// TestGarbageIsOfOne has revisions change hands.
func TestGarbageIsOfOne(t *testing.T) {
	binding, rollout, sweeper := types.NamespacedName{Name: "binding"}, types.NamespacedName{Name: "rollout"}, types.NamespacedName{}
	g := newGarbage()
	of := func(by types.NamespacedName) string { return fmt.Sprint(sets.List(g.of[by])) }
	g.addRevisions(binding, []revision{{name: "1"}, {name: "2"}})
	g.addRevisions(rollout, []revision{{name: "2"}, {name: "3"}, {name: "4"}})
	g.removeName("4")
	g.removeName("unknown")
	if of(binding) != "[1]" || of(rollout) != "[2 3]" {
		t.Errorf("the binding has %s and the rollout %s", of(binding), of(rollout))
	}
	g.leaveToSweeper(rollout)
	g.forgetRevisions(binding)
	if of(sweeper) != "[2 3]" || len(g.of) != 1 || len(g.by) != 2 {
		t.Errorf("left are %v, of %v", g.by, g.of)
	}
}

// TestNothingIsStoredForARolloutThatHasEnded has a rollout go while an object of it is looked at.
func TestNothingIsStoredForARolloutThatHasEnded(t *testing.T) {
	h := newHub(t)
	h.look()
	e := h.stages.entries[client.ObjectKeyFromObject(h.rollout)]
	h.stages.RemoveRollout(e.key)
	if stored, err := h.stages.createRevision(t.Context(), e, types.NamespacedName{Namespace: "shop", Name: "late"}, revision{name: "late", number: 2}, []byte("x")); stored || err != nil {
		t.Errorf("it is stored: %t, %v", stored, err)
	}
	if err := (RevisionSweeper{h.stages}).sweepRevisions(t.Context()); err != nil || len(h.revisions()) > 0 {
		t.Errorf("%v stay: %v", h.revisions(), err)
	}
}

// TestRevisionsAreDeletedInPages asks a real API server: it deletes no more in a request than
// the limit, and of no other rollout.
func TestRevisionsAreDeletedInPages(t *testing.T) {
	_, config := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{"../../../../config/crd/fleet.capstan.io_propagationrevisions.yaml"}
	})
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, rollout := range []types.UID{"one", "other", "staying"} {
		stores(t, c, rollout, pageSize+1)
	}
	left := func() int {
		list := &fleetv1alpha1.PropagationRevisionList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	s := newRevisionStore(StageDeps{Client: counting{c, func() {
		if n := left(); n%pageSize != 3 { // of three times a page and one
			t.Errorf("%d revisions are left between two requests", n)
		}
	}}, Live: c})
	if _, err := s.readRevisions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.clearRollouts(t.Context(), []types.UID{"one", "other"}); err != nil {
		t.Fatal(err)
	}
	all, err := s.readRevisions(t.Context())
	if err != nil || len(all) != 1 || len(all["staying"]) != pageSize+1 || len(s.of) != pageSize+1 {
		t.Errorf("the revisions of %d rollouts stay, and %d are counted: %v", len(all), len(s.of), err)
	}
}

// counting is a client that calls back before it deletes.
type counting struct {
	client.Client
	before func()
}

func (c counting) DeleteAllOf(ctx context.Context, object client.Object, opts ...client.DeleteAllOfOption) error {
	c.before()
	return c.Client.DeleteAllOf(ctx, object, opts...)
}
