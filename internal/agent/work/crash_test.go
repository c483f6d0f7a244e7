// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// crashWritesMin is fewer than the writes of the story below.
const crashWritesMin = 20

// TestAgentStopsAtAnyWrite lets an agent live through a story of works that
// come, change and go, cuts it off at its n-th write, lets the story go on
// without it, and sees that another agent ends it as it should, for each n
// and for writes that the server did and did not get.
func TestAgentStopsAtAnyWrite(t *testing.T) {
	l := newLab(t)
	all := int64(0)
	t.Run("without a stop", func(t *testing.T) { all = l.scene(t, "crash-never").crash(0, failNot) })
	if all < crashWritesMin {
		t.Fatalf("the story has %d writes, so this tests too little", all)
	}
	t.Run("stops", func(t *testing.T) {
		for how, name := range map[failure]string{failUnsent: "unsent", failUnheard: "unheard"} {
			for n := int64(1); n <= all; n++ {
				t.Run(fmt.Sprintf("at write %d %s", n, name), func(t *testing.T) {
					t.Parallel()
					l.scene(t, fmt.Sprintf("crash-%d-%s", n, name)).crash(n, how)
				})
			}
		}
	})
}

// crash stops the first agent at its n-th write, or when the story is over, and
// returns how many writes that made.
func (s *scene) crash(n int64, how failure) int64 {
	var count atomic.Int64
	died := make(chan struct{})
	mortal := s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper {
		return &writes{RoundTripper: rt, count: &count, fail: func(at int64) failure {
			switch {
			case at < n, n == 0:
				return failNot
			case at == n:
				close(died)
				return how
			default:
				return failUnsent
			}
		}}
	}})
	alive := func() bool {
		select {
		case <-died:
			return false
		default:
			return true
		}
	}
	// Each step waits for the agent as long as it lives.
	reached := func(check func() error) {
		for alive() && check() != nil {
		}
	}
	applied := func(name string) {
		reached(func() error {
			work, err := s.get(name)
			if err == nil && !isApplied(work) {
				err = errKilled
			}
			return err
		})
	}
	s.create(s.work("stays", s.configMap("kept", "1"), s.configMap("shared", "1"), s.configMap("dropped", "1")))
	s.create(s.work("goes", s.configMap("shared", "1"), s.configMap("own", "1")))
	applied("stays")
	applied("goes")
	s.change("stays", func(w *workv1.ManifestWork) {
		setManifests(w, s.configMap("kept", "2"), s.configMap("shared", "1"),
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"new","namespace":%q}}`, s.ns()))
	})
	applied("stays")
	s.delete("goes")
	reached(func() error {
		if _, err := s.get("goes"); err == nil {
			return errKilled
		}
		return nil
	})
	made := count.Load()
	mortal.stop()

	heir := s.start(agentOptions{})
	s.gone("goes")
	s.hasNot("own")
	s.hasNot("dropped")
	s.has("kept", "2")
	s.condition("stays", "Applied", metav1.ConditionTrue)
	s.eventually("the shared object has one owner", func() error {
		cm, _, err := s.value("shared")
		if err == nil && len(cm.OwnerReferences) != 1 {
			err = fmt.Errorf("owners are %v", cm.OwnerReferences)
		}
		return err
	})
	s.delete("stays")
	s.gone("stays")
	s.nothingLeft()
	heir.stop()
	return made
}

func isApplied(work *workv1.ManifestWork) bool {
	for _, c := range work.Status.Conditions {
		if c.Type == workv1.ManifestWorkConditionApplied {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == work.Generation
		}
	}
	return false
}
