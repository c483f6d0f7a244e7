// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"flag"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/testing/outage"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

var long = flag.Bool("long", false, "more objects and longer faults")

// TestKilledAtEveryWrite lets each controller die with its first write, so that one
// dies at every write that there is. Of four such writes, three are carried out without
// an answer, and one is not. Objects are sent, moved, changed, deleted and recreated
// meanwhile.
func TestKilledAtEveryWrite(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 3)
	others := []string{"api"}
	if *long {
		others = []string{"api", "admin", "mail", "search"}
	}
	s := w.OpenShop(others...)
	first, second := []string{"member1", "member2"}, []string{"member2", "member3"}
	deaths := w.Outlive(s.DeclaredOn(first...))

	w.ChangeObject(s.Policy, func() { s.Policy.Spec.Placement = harness.OnClusters(second...) })
	deaths += w.Outlive(s.DeclaredOn(second...))

	w.ChangeObject(s.Web, func() { s.Web.Spec.Template.Spec.Containers[0].EnvFrom = nil })
	want := s.DeclaredOn(second...)
	delete(want, "ConfigMap/page")
	deaths += w.Outlive(want)

	again := harness.Deployment("web", 3)
	w.Remove(s.Web)
	w.CreateAll(again)
	deaths += w.Outlive(want)

	w.Remove(again)
	delete(want, "Deployment/web")
	deaths += w.Outlive(want)
	if deaths < 20 {
		t.Errorf("%d deaths only", deaths)
	}

	server := &outage.WrappedServer{}
	w.StartControllers(server.WrapTransport)
	w.RunsOn("api", map[string]int32{"member2": 1, "member3": 1})
	w.BecomesQuiet(writesTo(server))
	w.BecomesDeclared(want, nil)
}

// TestHandOver has two controllers: one that has lost the lead, works on, and has
// not heard yet what became of the bindings; and its successor, which moves what
// that one has sent.
func TestHandOver(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 3)
	former := &outage.WrappedServer{}
	stop := w.RunControllers(former.WrapTransport)
	defer func() { stop() }()
	s := w.OpenShop("api")
	first, second := []string{"member1", "member2"}, []string{"member2", "member3"}
	w.BecomesDeclared(s.DeclaredOn(first...), nil)

	former.HoldWatches("resourcebindings")
	successor := &outage.WrappedServer{}
	w.StartControllers(successor.WrapTransport)
	w.ChangeObject(s.Policy, func() { s.Policy.Spec.Placement = harness.OnClusters(second...) })
	w.BecomesDeclared(s.DeclaredOn(second...), nil)
	moved := w.RememberSent()
	w.StaysSent(moved)

	w.Remove(s.Web)
	want := s.DeclaredOn(second...)
	delete(want, "Deployment/web")
	delete(want, "ConfigMap/page")
	w.BecomesDeclared(want, moved)

	former.ReleaseWatches()
	w.BecomesQuiet(writesTo(former, successor))
	w.BecomesDeclared(want, moved)
	stop()
	stop = func() {}
	w.BecomesQuiet(writesTo(successor))
	w.BecomesDeclared(want, moved)
}

// TestAnOutageInTheMiddle takes the API server away while objects are sent, and
// while they are moved.
func TestAnOutageInTheMiddle(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 3)
	lasts := 500 * time.Millisecond
	if *long {
		lasts = time.Minute
	}
	server := &outage.WrappedServer{}
	server.EndsAfter(6, true)
	w.StartControllers(server.WrapTransport)
	s := w.OpenShop("api", "admin")
	server.ComesBack(w.TB, lasts)
	w.BecomesDeclared(s.DeclaredOn("member1", "member2"), nil)
	w.BecomesQuiet(writesTo(server))
	before := w.RememberSent()

	server.EndsAfter(4, true)
	w.ChangeObject(s.Policy, func() { s.Policy.Spec.Placement = harness.OnClusters("member2", "member3") })
	server.ComesBack(w.TB, lasts)
	w.BecomesDeclared(s.DeclaredOn("member2", "member3"), before)
	w.BecomesQuiet(writesTo(server))
}
