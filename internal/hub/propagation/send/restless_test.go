// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestARestlessWorkIsWrittenMoreSeldom looks at a work ten times a second for an hour that
// differs each time from what is wanted: somebody changes it back, or the hub wants something
// else each time, or the cache does not show what was written.
func TestARestlessWorkIsWrittenMoreSeldom(t *testing.T) {
	const looks = 10 * 60 * 60
	for name, test := range map[string]struct {
		wanted, version func(look int) int
		least, most     int
	}{
		"somebody changes it back": {func(int) int { return 0 }, func(look int) int { return look }, calmWrites + 5, 30},
		"the hub changes its mind": {func(look int) int { return look }, func(look int) int { return look }, looks, looks},
		"the cache is behind":      {func(int) int { return 0 }, func(int) int { return 0 }, looks, looks},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			r := NewRestlessWorks(clk)
			writes := 0
			for look := range looks {
				if r.beginChange(changeTo(test.wanted(look), test.version(look))) == nil {
					writes++
				}
				clk.SetTime(clk.Now().Add(100 * time.Millisecond))
			}
			if writes < test.least || writes > test.most {
				t.Errorf("it is written %d times, want between %d and %d", writes, test.least, test.most)
			}
		})
	}
}

// TestAWorkThatIsCalmIsWrittenAtOnce lets a restless work be for longer than it has to wait.
func TestAWorkThatIsCalmIsWrittenAtOnce(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r, version := NewRestlessWorks(clk), 0
	begin := func() error {
		version++
		return r.beginChange(changeTo(0, version))
	}
	for begin() == nil {
	}
	clk.SetTime(clk.Now().Add(calmAfter))
	for range calmWrites {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	if begin() == nil {
		t.Error("it does not become restless again")
	}
}

// TestWhatAClusterUndoesIsSpacedByItsBytes has an agent change each of a hundred works of 1 MiB once in two minutes for
// an hour, so that none is restless, and another one undo something now and then.
func TestWhatAClusterUndoesIsSpacedByItsBytes(t *testing.T) {
	const works, minutes = 100, 60
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := NewRestlessWorks(clk)
	version := 0
	undone := func(cluster string, work int) error {
		version++
		change := changeTo(0, version)
		for _, one := range []*workv1.ManifestWork{change.Present, change.Wanted} {
			one.Namespace, one.Name = cluster, fmt.Sprint(work)
			one.Annotations = map[string]string{"fleet.capstan.io/written": "the same"}
		}
		change.Wanted.Spec.Workload.Manifests = nil
		change.Wanted.Annotations[allowance.AnnotationBytes] = fmt.Sprint(1 << 20)
		return r.beginChange(change)
	}
	repaired := 0
	for minute := range minutes {
		for work := range works * (1 - minute%2) {
			switch err := undone("hostile", work); {
			case err == nil:
				repaired++
			case !isRestless(err) || !strings.Contains(err.Error(), `agent of cluster "hostile"`):
				t.Fatalf("it is held up by %v", err)
			}
		}
		if err := undone("honest", minute); err != nil {
			t.Fatalf("minute %d: another cluster pays for it: %v", minute, err)
		}
		clk.SetTime(clk.Now().Add(time.Minute))
	}
	if most := 16 + minutes + 1; repaired > most || repaired < most/2 {
		t.Errorf("%d MiB are written again in %d minutes, want %d at most", repaired, minutes, most)
	}
}

func isRestless(err error) bool {
	_, is := WaitForRestless(err)
	return is
}

// TestWhatWaitsForItsClusterIsLookedAtSeldom has an agent change 700 works of 3 KiB back, a minute after each was written, when all that is
// repaired at once is used up. A look at one of them is one at all clusters.
func TestWhatWaitsForItsClusterIsLookedAtSeldom(t *testing.T) {
	const works, seconds = 700, 600
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := NewRestlessWorks(clk)
	r.repaired.CountBytes("hostile", repairedBurst, clk.Now())
	looks, written := 0, 0
	due := make([]time.Time, works)
	for range seconds {
		for work := range due {
			if due[work].After(clk.Now()) {
				continue
			}
			looks++
			change := changeTo(0, looks)
			for _, one := range []*workv1.ManifestWork{change.Present, change.Wanted} {
				one.Namespace, one.Name = "hostile", fmt.Sprint(work)
				one.Annotations = map[string]string{"fleet.capstan.io/written": "the same"}
			}
			change.Wanted.Spec.Workload.Manifests = nil
			change.Wanted.Annotations[allowance.AnnotationBytes] = fmt.Sprint(3 << 10)
			again, is := WaitForRestless(r.beginChange(change))
			if !is {
				written++
				again = time.Minute
			}
			due[work] = clk.Now().Add(again)
		}
		clk.SetTime(clk.Now().Add(time.Second))
	}
	if refused := looks - written; written < works || refused > written {
		t.Errorf("of %d looks in ten minutes, %d write something", looks, written)
	}
}

// TestWhatSomebodyElseDeletesIsMadeMoreSeldom has somebody delete a work whenever it is there, ten times a second for ten minutes; the hub
// delete it itself, as a user wants it elsewhere and back; and the hub want something else each time.
func TestWhatSomebodyElseDeletesIsMadeMoreSeldom(t *testing.T) {
	const looks = 10 * 60 * 10
	for name, test := range map[string]struct {
		itself      bool
		wanted      func(look int) int
		least, most int
	}{
		"somebody deletes it":      {false, func(int) int { return 0 }, calmWrites + 5, 20},
		"the hub deletes it":       {true, func(int) int { return 0 }, looks, looks},
		"the hub changes its mind": {false, func(look int) int { return look }, looks, looks},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			r := NewRestlessWorks(clk)
			made := 0
			for look := range looks {
				work := changeTo(test.wanted(look), 0).Wanted
				marked, err := deliver.CompareWorks(map[string]*workv1.ManifestWork{work.Namespace: work}, nil, nil)
				expect.NoError(t, err)
				work = marked.New[0]
				if again := made > 0 && !test.itself && test.most < looks; r.IsMadeAgain(work) != again {
					t.Fatalf("look %d: it counts as made again: %t, want %t", look, !again, again)
				}
				if r.beginCreate(work) == nil {
					made++
					work.UID = types.UID(fmt.Sprint(look))
					if test.itself {
						r.recordDeletion(work)
					}
					r.ObserveDeleted(work)
				}
				clk.SetTime(clk.Now().Add(100 * time.Millisecond))
			}
			if made < test.least || made > test.most {
				t.Errorf("it is made %d times, want between %d and %d", made, test.least, test.most)
			}
		})
	}
}

// TestFewWorksAreRemembered writes more works than are remembered.
func TestFewWorksAreRemembered(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := NewRestlessWorks(clk)
	for i := range 10 * sweepMin {
		one := changeTo(0, 0)
		one.Present.Name = fmt.Sprint(i)
		if err := r.beginChange(one); err != nil {
			t.Fatal(err)
		}
		clk.SetTime(clk.Now().Add(calmAfter / 100))
	}
	if len(r.works) > 2*sweepMin {
		t.Errorf("%d works are remembered", len(r.works))
	}
}

// changeTo returns the change of a work in a version to a spec.
func changeTo(spec, version int) deliver.WorkChange {
	is := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "web", ResourceVersion: fmt.Sprint(version)}}
	want := is.DeepCopy()
	want.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":%d}`, spec)}}}
	return deliver.WorkChange{Present: is, Wanted: want}
}
