// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// TestWhatIsInNoNamespaceHasAPace has an administrator send two megabytes of definitions to all clusters, of which there are a
// thousand: they get all of it, whatever namespaces have, but not at once, and no namespace waits for them.
func TestWhatIsInNoNamespaceHasAPace(t *testing.T) {
	const clusters, definitions = 1000, 2
	s := newScene(t, unlimited)
	start, sum := s.clock.Now(), 0
	var told HeldWorks
	for name := range definitions {
		left := many("", fmt.Sprint(name), clusters, megabyte)
		for len(left) > 0 {
			admitted, held := s.creates(true, left...)
			left = left[admitted:]
			sum += admitted
			if most := 256 + int(s.clock.Now().Sub(start).Seconds()) + 1; sum > most {
				t.Fatalf("%d MiB are written in %s, want %d at most", sum, s.clock.Now().Sub(start), most)
			}
			if held.AnyHeld() {
				if told = held; held.Reason != Throttled || held.NeedsAction() {
					t.Fatalf("held back as %s after %d MiB, want no limit", held.Reason, sum)
				}
				s.after(held.Again)
			}
		}
	}
	for _, says := range []string{"ClusterResourceBindings and namespaces", fleetv1alpha1.AnnotationSharedWorkBytesMax + " of the ClusterManager", "256 MiB at once", "1024 KiB in a second"} {
		if message := told.ConditionMessage(); !strings.Contains(message, says) {
			t.Errorf("%q does not say %s", message, says)
		}
	}
	if counted := s.a.HeldBack(); counted[Throttled] != 1 {
		t.Errorf("%v namespaces are held back, want what is in none to count as one", counted)
	}
	if admitted, held := s.creates(true, many("shop", "web", 100, megabyte)...); admitted != 100 {
		t.Errorf("of 100 works of a namespace, %d are written (%s)", admitted, held.Reason)
	}
}

// TestWhatCannotBeWrittenTakesNoTurns has clusters that can be sent nothing, which are tried again and again.
func TestWhatCannotBeWrittenTakesNoTurns(t *testing.T) {
	s := newScene(t, unlimited)
	for range 10 {
		failed := map[string]error{}
		for _, lost := range many("", "definition", 200, megabyte) {
			failed[lost.Namespace] = errors.New("the cluster has no namespace")
		}
		s.creates(false, many("", "definition", 200, megabyte)...)
		s.a.ReportFailedWrites(WorkOwner{}, "definition", failed)
		s.after(time.Second)
	}
	if admitted, held := s.creates(true, many("", "other", 200, megabyte)...); admitted != 200 {
		t.Errorf("of 200 works, %d are written (%s)", admitted, held.Reason)
	}
}
