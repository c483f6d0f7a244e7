// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"flag"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

var long = flag.Bool("long", false, "more objects and longer faults")

// shop is what the fault tests send: a Deployment that needs a ConfigMap, and
// others that need nothing.
type shop struct {
	page   *corev1.ConfigMap
	web    *appsv1.Deployment
	others []*appsv1.Deployment
	policy *policyv1alpha1.PropagationPolicy
}

// open creates the shop, for the first two clusters.
func (w world) open(others ...string) *shop {
	w.Helper()
	s := &shop{
		page: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}},
		web:  deployment("web", 2), policy: policy("shop", onClusters("member1", "member2")),
	}
	s.policy.Spec.PropagateDeps = true
	s.web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}},
	}}
	w.create(s.page, s.web, s.policy)
	for _, name := range others {
		s.others = append(s.others, deployment(name, 1))
		w.create(s.others[len(s.others)-1])
	}
	return s
}

// on is what is declared if all of the shop is on these clusters.
func (s *shop) on(clusters ...string) declared {
	all := declared{"ConfigMap/page": clusters, "Deployment/web": clusters}
	for _, other := range s.others {
		all["Deployment/"+other.Name] = clusters
	}
	return all
}

// TestKilledAtEveryWrite lets each controller die with its first write, so that one
// dies at every write that there is. Of four such writes, three are carried out without
// an answer, and one is not. Objects are sent, moved, changed, deleted and recreated
// meanwhile.
func TestKilledAtEveryWrite(t *testing.T) {
	w := newWorldOfMembers(t, 3)
	others := []string{"api"}
	if *long {
		others = []string{"api", "admin", "mail", "search"}
	}
	s := w.open(others...)
	first, second := []string{"member1", "member2"}, []string{"member2", "member3"}
	deaths := w.outlive(s.on(first...))

	w.change(s.policy, func() { s.policy.Spec.Placement = onClusters(second...) })
	deaths += w.outlive(s.on(second...))

	w.change(s.web, func() { s.web.Spec.Template.Spec.Containers[0].EnvFrom = nil })
	want := s.on(second...)
	delete(want, "ConfigMap/page")
	deaths += w.outlive(want)

	again := deployment("web", 3)
	w.remove(s.web)
	w.create(again)
	deaths += w.outlive(want)

	w.remove(again)
	delete(want, "Deployment/web")
	deaths += w.outlive(want)
	if deaths < 20 {
		t.Errorf("%d deaths only", deaths)
	}

	server := &outage.WrappedServer{}
	w.start(server.WrapTransport)
	w.on("api", map[string]int32{"member2": 1, "member3": 1})
	w.quiet(writesTo(server))
	w.become(want, nil)
}

// outlive starts one controller after the other until everything is as declared,
// and returns how many have died. What is to stay is never deleted.
func (w world) outlive(want declared) (deaths int) {
	w.Helper()
	before := w.remember()
	for until := time.Now().Add(5 * patience); w.exact(want) != nil; deaths++ {
		if time.Now().After(until) {
			w.Fatalf("after %d deaths: %v", deaths, w.exact(want))
		}
		server := &outage.WrappedServer{}
		server.EndsAfter(1, deaths%4 != 0)
		stop := w.run(server.WrapTransport)
		// What the one before has sent may be all that was missing.
		for !server.HasEnded() && w.exact(want) != nil && time.Now().Before(until) {
			time.Sleep(20 * time.Millisecond)
		}
		server.EndNow()
		stop()
	}
	w.Logf("as declared after %d deaths", deaths)
	w.unbroken(before)
	return deaths
}

// TestHandOver has two controllers: one that has lost the lead, works on, and has
// not heard yet what became of the bindings; and its successor, which moves what
// that one has sent.
func TestHandOver(t *testing.T) {
	w := newWorldOfMembers(t, 3)
	former := &outage.WrappedServer{}
	stop := w.run(former.WrapTransport)
	defer func() { stop() }()
	s := w.open("api")
	first, second := []string{"member1", "member2"}, []string{"member2", "member3"}
	w.become(s.on(first...), nil)

	former.HoldWatches("resourcebindings")
	successor := &outage.WrappedServer{}
	w.start(successor.WrapTransport)
	w.change(s.policy, func() { s.policy.Spec.Placement = onClusters(second...) })
	w.become(s.on(second...), nil)
	moved := w.remember()
	w.stay(moved)

	w.remove(s.web)
	want := s.on(second...)
	delete(want, "Deployment/web")
	delete(want, "ConfigMap/page")
	w.become(want, moved)

	former.ReleaseWatches()
	w.quiet(writesTo(former, successor))
	w.become(want, moved)
	stop()
	stop = func() {}
	w.quiet(writesTo(successor))
	w.become(want, moved)
}

// TestAnOutageInTheMiddle takes the API server away while objects are sent, and
// while they are moved.
func TestAnOutageInTheMiddle(t *testing.T) {
	w := newWorldOfMembers(t, 3)
	lasts := 500 * time.Millisecond
	if *long {
		lasts = time.Minute
	}
	server := &outage.WrappedServer{}
	server.EndsAfter(6, true)
	w.start(server.WrapTransport)
	s := w.open("api", "admin")
	server.ComesBack(w.T, lasts)
	w.become(s.on("member1", "member2"), nil)
	w.quiet(writesTo(server))
	before := w.remember()

	server.EndsAfter(4, true)
	w.change(s.policy, func() { s.policy.Spec.Placement = onClusters("member2", "member3") })
	server.ComesBack(w.T, lasts)
	w.become(s.on("member2", "member3"), before)
	w.quiet(writesTo(server))
}
