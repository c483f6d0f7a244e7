// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// repairs returns how many of some works are written again that somebody changed, and how often.
func (s *scene) repairs(works []*workv1.ManifestWork, version int) (left []*workv1.ManifestWork, held HeldWorks) {
	s.Helper()
	var writes []WorkWrite
	for _, one := range works {
		writes = append(writes, WorkWrite{
			Work: types.NamespacedName{Namespace: one.Namespace, Name: one.Name}, Has: WorkBytes(one), Bytes: WorkBytes(one),
			Version: fmt.Sprint(version), Repairs: true,
		})
	}
	held = s.a.AdmitWrites(OwnerOf(works[0]), writes)
	for _, one := range works {
		if held.Clusters[one.Namespace] != nil {
			left = append(left, one)
			continue
		}
		s.a.ObserveWork(one, one)
	}
	return left, held
}

// TestRepairsHoldUpNothingElse has agents of twenty clusters change all their works, of together 400 MiB, once a minute for
// an hour. What is new is written at once meanwhile, and what they change as well in the end.
func TestRepairsHoldUpNothingElse(t *testing.T) {
	const clusters, objects, megabytes = 20, 20, 400
	for _, namespace := range []string{"", "shop"} {
		s := newScene(t, unlimited)
		repaired := 0
		left := make([][]*workv1.ManifestWork, objects)
		for second := range 3600 {
			for n := range left {
				if second%60 == 0 {
					left[n] = many(namespace, fmt.Sprint("undone-", n), clusters, megabyte)
				}
				if before := len(left[n]); before > 0 {
					left[n], _ = s.repairs(left[n], second/60)
					repaired += before - len(left[n])
				}
			}
			if second%60 == 30 {
				if n, held := s.creates(true, work(namespace, "member", fmt.Sprint("new-", second), megabyte)); n != 1 {
					t.Fatalf("namespace %q: after %d s, what is new waits for %s: %s", namespace, second, held.Again, held.ConditionMessage())
				}
			}
			s.after(time.Second)
		}
		if most := int(burstBytes(DefaultShared)/megabyte)/2 + 3600; repaired > most+1 || repaired < most*9/10 {
			t.Errorf("namespace %q: %d works of 1 MiB are written again in an hour, want nearly %d", namespace, repaired, most)
		}
	}
}

// TestRepairsThatWaitNameTheirClusters has more to be repaired than there is time for.
func TestRepairsThatWaitNameTheirClusters(t *testing.T) {
	s := newScene(t, unlimited)
	_, held := s.repairs(many("", "undone", 400, megabyte), 0)
	if held.Reason != Throttled || held.NeedsAction() || len(held.Clusters) != 400-128 {
		t.Fatalf("held back are %d clusters as %s", len(held.Clusters), held.Reason)
	}
	for _, says := range []string{"member128, member129", "and 267 more", "capstan deny --revoke"} {
		if message := held.ConditionMessage(); !strings.Contains(message, says) {
			t.Errorf("%q does not say %s", message, says)
		}
	}
	if counted := s.a.HeldBack(); counted[Throttled] != 1 {
		t.Errorf("%d namespaces count as held back, want what is in none to count as one", counted[Throttled])
	}
}

// TestRepairsThatAreNotWrittenTakeNoTurns has those of a namespace come to nothing, again and again.
func TestRepairsThatAreNotWrittenTakeNoTurns(t *testing.T) {
	s := newScene(t, unlimited)
	works := many("shop", "undone", 100, megabyte)
	failed := map[string]error{}
	for _, one := range works {
		failed[one.Namespace] = errors.New("restless")
	}
	for look := range 100 {
		var writes []WorkWrite
		for _, one := range works {
			writes = append(writes, WorkWrite{
				Work: types.NamespacedName{Namespace: one.Namespace, Name: one.Name}, Has: megabyte, Bytes: megabyte, Version: fmt.Sprint(look), Repairs: true,
			})
		}
		if held := s.a.AdmitWrites(WorkOwner{Namespace: "shop"}, writes); held.AnyHeld() {
			t.Fatalf("look %d: %s", look, held.ConditionMessage())
		}
		s.a.ReportFailedWrites(WorkOwner{Namespace: "shop"}, "undone", failed)
	}
	if left := s.a.pool.meter.bytes; left > 0 {
		t.Errorf("of the pace of all namespaces, %.0f bytes are taken", left)
	}
}

// TestWhoIsLookedAtOftenTakesNoPlaceOfOthers has an agent cause looks at an object that waits already.
func TestWhoIsLookedAtOftenTakesNoPlaceOfOthers(t *testing.T) {
	s := newScene(t, unlimited)
	s.creates(true, many("", "definition", 256, megabyte)...)
	_, first := s.creates(false, work("", "member1", "held", megabyte))
	for range 1000 {
		s.after(time.Millisecond)
		if _, held := s.creates(false, work("", "member1", "held", megabyte)); held.Again > first.Again {
			t.Fatalf("it waits for %s, and did for %s before", held.Again, first.Again)
		}
	}
	if _, other := s.creates(false, work("", "member1", "other", megabyte)); other.Again > first.Again+lookEvery {
		t.Errorf("another one waits for %s, after one that waits for %s", other.Again, first.Again)
	}
	for n := range 100 * sweepMin {
		s.creates(false, work("", "member1", fmt.Sprint(n), megabyte))
		s.a.of[WorkOwner{}].meter.bytes = 300 * megabyte // it stays full
		s.after(time.Minute)
	}
	if places := len(s.a.of[WorkOwner{}].lines[causeChange].places); places > 2*sweepMin {
		t.Errorf("%d places are remembered", places)
	}
}
