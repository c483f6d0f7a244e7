// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"os"
	"slices"
	"testing"
)

// numbered are fixtures that are numbers, and write down which of them have ended.
func numbered(s *Servers, ended *[]int) *Fixtures[int] {
	last := 0
	return NewFixtures(s, func(t testing.TB) int {
		last++
		number := last
		t.Cleanup(func() { *ended = append(*ended, number) })
		return number
	})
}

// namedTest is a test by the name that it has when it runs again.
type namedTest struct {
	testing.TB
	name string
}

func (t namedTest) Name() string { return t.name }

func TestFixturesGoFromTestToTest(t *testing.T) {
	s := NewServers()
	var ended, endedOthers []int
	some, others := numbered(s, &ended), numbered(s, &endedOthers)
	t.Run("a test has one to itself", func(t *testing.T) {
		if first, second := some.TakeFixture(t), some.TakeFixture(t); first != 1 || second != 2 {
			t.Errorf("the fixtures %d and %d, want 1 and 2", first, second)
		}
	})
	t.Run("the next has what a test before it had", func(t *testing.T) {
		if got := some.TakeFixture(t); got != 1 && got != 2 {
			t.Errorf("fixture %d was built anew", got)
		}
	})
	t.Run("others take the place of those that have waited", func(t *testing.T) {
		if got := others.TakeFixture(t); got != 1 {
			t.Errorf("fixture %d of a kind of which there is none", got)
		}
	})
	if len(ended) != 1 || len(endedOthers) != 0 {
		t.Errorf("%v and %v have ended, want one of the first", ended, endedOthers)
	}
	if !s.endFixtures() {
		t.Error("a fixture did not end well")
	}
	slices.Sort(ended)
	if !slices.Equal(ended, []int{1, 2}) || !slices.Equal(endedOthers, []int{1}) {
		t.Errorf("%v and %v have ended, want all", ended, endedOthers)
	}
}

func TestATestThatRunsAgainHasAnotherFixture(t *testing.T) {
	s := NewServers()
	var ended []int
	some := numbered(s, &ended)
	name := t.Name() + "/again"
	for number := range 2 { // as with -count
		t.Run("again", func(t *testing.T) {
			if got := some.TakeFixture(namedTest{TB: t, name: name}); got != 1+number {
				t.Errorf("run %d has fixture %d", number, got)
			}
		})
	}
	t.Run("another", func(t *testing.T) {
		if got := some.TakeFixture(t); got != 1 {
			t.Errorf("another test has fixture %d, want the one that has waited longest", got)
		}
	})
	if !s.endFixtures() || len(ended) != 2 {
		t.Errorf("%v have ended, want both", ended)
	}
}

func TestASharedFixtureOutlivesItsTests(t *testing.T) {
	s := NewServers()
	var ended []int
	some := numbered(s, &ended)
	t.Run("all share one", func(t *testing.T) {
		if first, second := some.ShareFixture(t), some.ShareFixture(t); first != 1 || second != 1 {
			t.Errorf("the fixtures %d and %d, want 1", first, second)
		}
	})
	for number := range 2 { // as with -count
		name := t.Name() + "/again"
		t.Run("again", func(t *testing.T) {
			if got := some.ShareFixture(namedTest{TB: t, name: name}); got != 1+number {
				t.Errorf("run %d has fixture %d", number, got)
			}
		})
	}
	if !slices.Equal(ended, []int{1}) {
		t.Errorf("%v have ended, want the one that a test had that runs again", ended)
	}
	if !s.endFixtures() || !slices.Equal(ended, []int{1, 2}) {
		t.Errorf("%v have ended, want all", ended)
	}
}

func TestFixturesOutliveTheTestThatTheyAreBuiltFor(t *testing.T) {
	s := NewServers()
	var life testing.TB
	folder := ""
	fixtures := NewFixtures(s, func(t testing.TB) string {
		life, folder = t, t.TempDir()
		return folder
	})
	t.Run("it is built", func(t *testing.T) { fixtures.TakeFixture(t) })
	t.Run("it goes on", func(t *testing.T) {
		if got := fixtures.TakeFixture(t); got != folder {
			t.Errorf("the folder %s, want %s", got, folder)
		}
		if err := life.Context().Err(); err != nil {
			t.Errorf("its context: %v", err)
		}
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
		life.Helper()
	})
	life.Cleanup(func() { life.Fatal("as it should") })
	if s.endFixtures() {
		t.Error("nobody hears of a cleanup that fails")
	}
	if life.Context().Err() == nil {
		t.Error("its context has not ended")
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("its folder is still there: %v", err)
	}
}

func TestWhoCleansUpHasAContext(t *testing.T) {
	asked := false
	t.Run("a test that ends", func(t *testing.T) {
		WhenDone(t, func(t testing.TB) {
			asked = true
			if err := t.Context().Err(); err != nil {
				t.Errorf("its context has ended: %v", err)
			}
		})
	})
	if !asked {
		t.Error("nothing was cleaned up")
	}
}
