// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/kube/written"
)

// scene is some works and a clock.
type scene struct {
	*testing.T
	*CreatedWorks
	clock *clocktesting.FakePassiveClock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &scene{T: t, CreatedWorks: NewCreatedWorks(clock), clock: clock}
}

func (s *scene) after(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

func (s *scene) begins(work types.NamespacedName, want bool, reason string) {
	s.Helper()
	if got := s.BeginCreate(work); got != want {
		s.Errorf("%s begins: got %t, want %t: %s", work, got, want, reason)
	}
}

func (s *scene) awaited(name string, want bool, reason string) {
	s.Helper()
	if got := s.IsAwaited(name); got != want {
		s.Errorf("%s is awaited: got %t, want %t: %s", name, got, want, reason)
	}
}

func on(cluster, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster, Name: name}
}

func TestAWorkIsCreatedOnceAtATime(t *testing.T) {
	s := newScene(t)
	s.begins(on("a", "web"), true, "nobody creates it")
	s.begins(on("a", "web"), false, "it is being created")
	s.begins(on("b", "web"), true, "it is for another cluster")
	s.begins(on("a", "db"), true, "it is another work")
	s.ForgetWork(on("a", "web"))
	s.begins(on("a", "web"), true, "it was forgotten")
	s.begins(on("b", "web"), false, "another one was forgotten")
	s.ForgetWork(on("c", "web")) // which is not there
}

func TestACacheIsBehindForHalfAMinuteAtMost(t *testing.T) {
	s := newScene(t)
	s.begins(on("a", "web"), true, "nobody creates it")
	s.after(written.BehindMax - time.Nanosecond)
	s.begins(on("a", "web"), false, "the cache may be behind still, and asking again does not start the time anew")
	s.awaited("web", true, "the cache may be behind still")
	s.after(time.Nanosecond)
	s.awaited("web", false, "the cache would show it")
	s.begins(on("a", "web"), true, "whoever created it has failed")
	s.after(written.BehindMax - time.Nanosecond)
	s.begins(on("a", "web"), false, "it was begun again")
}

func TestWorksAreAwaitedByNameOnWhateverCluster(t *testing.T) {
	s := newScene(t)
	s.awaited("web", false, "there are none")
	s.begins(on("a", "web"), true, "nobody creates it")
	s.begins(on("b", "web"), true, "nobody creates it")
	s.awaited("a", false, "that is the cluster")
	s.awaited("we", false, "that is a part of the name")
	s.ForgetWork(on("a", "web"))
	s.awaited("web", true, "that of the other cluster is not there yet")
	s.ForgetWork(on("b", "web"))
	s.awaited("web", false, "both are there")
}

func TestASweepTakesNothingThatIsAwaited(t *testing.T) {
	const many = 3000
	s := newScene(t)
	s.begins(on("b", "web"), true, "nobody creates it")
	s.after(time.Second)
	for i := range many {
		s.begins(on("a", strconv.Itoa(i)), true, "nobody creates it")
	}
	s.after(written.BehindMax - time.Second)
	for i := 0; i < many && !t.Failed(); i++ {
		s.begins(on("a", strconv.Itoa(i)), false, "it is being created, however many others are")
	}
}
