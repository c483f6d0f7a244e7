// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// crashWritesMin is fewer than the writes of each story below.
const crashWritesMin = 20

// story is what happens to works while an agent lives or does not.
type story struct {
	// tell makes things happen. It waits for the agent where it says so, as long
	// as that lives.
	tell func(*scene, *mortal)
	// end sees that the next agent ends the story as it should.
	end func(*scene, *mortal)
}

// stopAtAnyWrite lets an agent live through a story of works that
// come, change and go, cuts it off at its n-th write, lets the story go on
// without it, and sees that another agent ends it as it should, for each n
// and for writes that the server did and did not get.
func stopAtAnyWrite(t *testing.T, name string, told story) {
	t.Helper()
	l := newLab(t)
	all := int64(0)
	t.Run(name+" without a stop", func(t *testing.T) { all = l.scene(t, name+"-never").crash(told, 0, failNot) })
	if all < crashWritesMin {
		t.Fatalf("the story of %s has %d writes, so this tests too little", name, all)
	}
	t.Run(name, func(t *testing.T) {
		for how, what := range map[failure]string{failUnsent: "unsent", failUnheard: "unheard"} {
			for n := int64(1); n <= all; n++ {
				t.Run(fmt.Sprintf("at write %d %s", n, what), func(t *testing.T) {
					t.Parallel()
					l.scene(t, fmt.Sprintf("%s-%d-%s", name, n, what)).crash(told, n, how)
				})
			}
		}
	})
}

func TestAgentStopsAtAnyWriteOfWorks(t *testing.T) {
	stopAtAnyWrite(t, "works", story{
		tell: func(s *scene, m *mortal) {
			s.create(s.work("stays", s.configMap("kept", "1"), s.configMap("shared", "1"), s.configMap("dropped", "1")))
			s.create(s.work("goes", s.configMap("shared", "1"), s.configMap("own", "1")))
			m.applied(s, "stays")
			m.applied(s, "goes")
			s.change("stays", func(w *workv1.ManifestWork) {
				setManifests(w, s.configMap("kept", "2"), s.configMap("shared", "1"),
					fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"new","namespace":%q}}`, s.ns()))
			})
			m.applied(s, "stays")
			s.delete("goes")
			m.reached(func() error {
				if _, err := s.get("goes"); err == nil {
					return errKilled
				}
				return nil
			})
		},
		end: func(s *scene, _ *mortal) {
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
		},
	})
}

// TestAgentStopsAtAnyWriteOfMoves is about records that someone deletes, and about orphans.
func TestAgentStopsAtAnyWriteOfMoves(t *testing.T) {
	stopAtAnyWrite(t, "moves", story{end: endMoves, tell: func(s *scene, m *mortal) {
		keep := s.work("keep", s.configMap("kept", "1"), s.configMap("orphan", "1"), s.configMap("pruned", "1"))
		keep.Spec.DeleteOption = &workv1.DeleteOption{
			PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan,
			SelectivelyOrphans: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
				{Resource: "configmaps", Namespace: s.ns(), Name: "orphan"},
			}},
		}
		leave := s.work("leave", s.configMap("left", "1"))
		leave.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
		s.create(keep)
		s.create(leave)
		m.applied(s, "keep")
		m.applied(s, "leave")
		for _, name := range []string{"kept", "orphan", "left"} {
			if object, _, err := s.value(name); err == nil {
				m.seen[name] = object.UID
			}
		}
		before, err := s.records()
		expect.NoError(s.t, err)
		for i := range before {
			expect.NoError(s.t, s.client.Delete(s.t.Context(), &before[i]))
		}
		s.change("keep", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("kept", "2"), s.configMap("orphan", "1")) })
		m.applied(s, "keep")
		m.reached(func() error { // all are the new records'
			now, err := s.records()
			if err == nil && len(now) != len(before) {
				err = errKilled
			}
			for i := range now {
				if now[i].DeletionTimestamp != nil || strings.HasPrefix(now[i].Name, ledger.KeeperPrefix) {
					err = errKilled
				}
			}
			return err
		})
		s.delete("leave")
		s.delete("keep")
		m.reached(func() error {
			if _, err := s.get("keep"); err == nil {
				return errKilled
			}
			if _, err := s.get("leave"); err == nil {
				return errKilled
			}
			return nil
		})
	}})
}

// TestAgentStopsAtAnyWriteOfWhatIsReplaced is about objects that are replaced, since they list a port twice: an agent that
// stops before it has settled what it owns then leaves an entry of managedFields that no apply looks
// at. The last manifest of one is replaced as well, that of the other is applied.
func TestAgentStopsAtAnyWriteOfWhatIsReplaced(t *testing.T) {
	stopAtAnyWrite(t, "twice", story{
		tell: func(s *scene, m *mortal) {
			s.create(s.work("w", s.listing("always", portTwice+variable("A")), s.listing("once", portTwice+variable("A"))))
			m.applied(s, "w")
			s.change("w", func(w *workv1.ManifestWork) {
				setManifests(w, s.listing("always", portTwice+variable("B")), s.listing("once", variable("B")))
			})
			m.applied(s, "w")
			s.change("w", func(w *workv1.ManifestWork) {
				setManifests(w, s.listing("always", portTwice+variable("C")), s.listing("once", portTwice+variable("C")))
			})
			m.applied(s, "w")
			s.change("w", func(w *workv1.ManifestWork) {
				setManifests(w, s.listing("always", portTwice+variable("D")), s.listing("once", variable("D")))
			})
			m.applied(s, "w")
		},
		// What was left over is merged, so that all goes that manifests have lost.
		end: func(s *scene, _ *mortal) {
			s.condition("w", "Applied", metav1.ConditionTrue)
			for name, want := range map[string][]string{"always": {"http=8080", "metrics=8080"}, "once": nil} {
				s.settled(holds(s, name+" is as its last manifest", name, func() *appsv1.Deployment { return &appsv1.Deployment{} }, func(d *appsv1.Deployment) error {
					return errors.Join(is("ports", ports(d), want), is("env", variables(d), []string{"D=1"}))
				}))
			}
			s.delete("w")
			s.gone("w")
		},
	})
}

// mortal is an agent that stops at a write.
type mortal struct {
	died chan struct{}
	// seen are objects by name as they were first.
	seen map[string]types.UID
}

func (m *mortal) alive() bool {
	select {
	case <-m.died:
		return false
	default:
		return true
	}
}

// reached waits for something as long as the agent lives.
func (m *mortal) reached(check func() error) {
	for m.alive() && check() != nil {
	}
}

func (m *mortal) applied(s *scene, name string) {
	m.reached(func() error {
		work, err := s.get(name)
		if err == nil && !isApplied(work) {
			err = errKilled
		}
		return err
	})
}

// crash stops the first agent at its n-th write, or when the story is over, and
// returns how many writes that made.
func (s *scene) crash(told story, n int64, how failure) int64 {
	var count atomic.Int64
	m := &mortal{died: make(chan struct{}), seen: map[string]types.UID{}}
	first := s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper {
		return &writes{RoundTripper: rt, count: &count, fail: func(at int64) failure {
			switch {
			case at < n, n == 0:
				return failNot
			case at == n:
				close(m.died)
				return how
			default:
				return failUnsent
			}
		}}
	}})
	told.tell(s, m)
	made := count.Load()
	first.stop()
	heir := s.start(agentOptions{})
	told.end(s, m)
	s.nothingLeft()
	heir.stop()
	return made
}

func endMoves(s *scene, m *mortal) {
	s.gone("keep")
	s.gone("leave")
	s.hasNot("kept")
	s.hasNot("pruned")
	for _, name := range []string{"orphan", "left"} {
		object, _, err := s.value(name)
		switch {
		case apierrors.IsNotFound(err) && m.seen[name] == "":
			// The agent stopped before it made the object, and the work was deleted.
		case err != nil:
			s.t.Errorf("%s: %v", name, err)
		case m.seen[name] != "" && object.UID != m.seen[name]:
			s.t.Errorf("%s was deleted and made again", name)
		case len(object.OwnerReferences) > 0:
			s.t.Errorf("%s has owners %v", name, object.OwnerReferences)
		}
	}
}

// listing returns the JSON of a Deployment of a name, with fields of its container.
func (s *scene) listing(name, container string) string {
	return strings.Replace(s.pods("", container), `"name":"web"`, fmt.Sprintf(`"name":%q`, name), 1)
}

// variable is a field of a container.
func variable(name string) string { return fmt.Sprintf(`,"env":[{"name":%q,"value":"1"}]`, name) }

func isApplied(work *workv1.ManifestWork) bool {
	for _, c := range work.Status.Conditions {
		if c.Type == workv1.ManifestWorkConditionApplied {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == work.Generation
		}
	}
	return false
}
