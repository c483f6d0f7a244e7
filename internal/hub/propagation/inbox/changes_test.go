// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is an object as it is after so many changes.
func state(namespace, name string, n int64) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: n}}
}

// followed records changes as text.
func followed(all *[]string) *ChangeQueue[string] {
	text := func(object client.Object) string {
		if object == nil {
			return "none"
		}
		return fmt.Sprint(object.GetGeneration())
	}
	return NewChangeQueue(func(_ context.Context, _ Queue[string], change Change) {
		*all = append(*all, fmt.Sprintf("%s: %s to %s", change.name, text(change.Before), text(change.After)))
	})
}

func TestChangesAreFollowedAsTheyCome(t *testing.T) {
	var got []string
	c := followed(&got)
	c.AddChange(nil, state("shop", "a", 1))
	c.AddChange(state("shop", "a", 1), state("shop", "a", 2))
	c.AddChange(state("shop", "b", 1), nil)
	for c.FollowNext(t.Context(), nil) {
		continue
	}
	if want := []string{"shop/a: none to 1", "shop/a: 1 to 2", "shop/b: 1 to none"}; !slices.Equal(got, want) {
		t.Errorf("followed are\n%v, want\n%v", got, want)
	}
}

// TestNobodyWaitsForTheChangesOfOthers has one tenant change two objects again and again.
func TestNobodyWaitsForTheChangesOfOthers(t *testing.T) {
	const times = 10_000
	var got []string
	c := followed(&got)
	for n := range int64(times) {
		for _, name := range []string{"a", "b"} {
			c.AddChange(state("shop", name, n), state("shop", name, n+1))
		}
	}
	c.AddChange(state("shop", "b", times), nil)
	c.AddChange(nil, state("bank", "a", 1))
	for c.FollowNext(t.Context(), nil) {
		continue
	}
	if at := slices.Index(got, "bank/a: none to 1"); at > 1 || at < 0 {
		t.Errorf("what another tenant has changed is in place %d", at)
	}
	if len(got) > apartMax+3 {
		t.Errorf("%d changes are kept apart", len(got))
	}
	// What was before, and what is in the end, is never left out.
	const each = apartMax / 2
	want := []string{"shop/a: 0 to 1", fmt.Sprintf("shop/a: %d to %d", each-1, times), fmt.Sprintf("shop/b: %d to none", each-1)}
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("%s is missing in %v", one, got)
		}
	}
	if len(c.waiting)+c.turns.Waiting()+len(c.latest) > 0 {
		t.Errorf("%v, %v and %v are remembered", c.waiting, c.turns, c.latest)
	}
}

// TestChangesThatTakeLongHaveFewerTurns has each change of one tenant take a second, and those of
// another a millisecond.
func TestChangesThatTakeLongHaveFewerTurns(t *testing.T) {
	const many = 500
	for reason, comes := range map[string]bool{
		"all are there from the beginning":             false,
		"there is one more whenever one was looked at": true,
	} {
		t.Run(reason, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			turns := map[string]int{}
			var c *ChangeQueue[string]
			c = NewChangeQueue(func(_ context.Context, _ Queue[string], change Change) {
				turns[change.name.Namespace]++
				now = now.Add(map[string]time.Duration{"slow": time.Second, "quick": time.Millisecond}[change.name.Namespace])
				if change.name.Namespace == "slow" && comes {
					c.AddChange(nil, state("slow", fmt.Sprint("more", turns["slow"]), 1))
				}
			})
			c.now = func() time.Time { return now }
			for n := range many {
				if n == 0 || !comes {
					c.AddChange(nil, state("slow", fmt.Sprint(n), 1))
				}
				c.AddChange(nil, state("quick", fmt.Sprint(n), 1))
			}
			until := func(enough func() bool) {
				for !enough() && c.FollowNext(t.Context(), nil) {
					continue
				}
			}
			until(func() bool { return turns["quick"] == many })
			if turns["slow"] > 1 {
				t.Errorf("%d changes of a millisecond wait for %d of a second", many, turns["slow"])
			}
			c.AddChange(nil, state("late", "a", 1))
			until(func() bool { return turns["late"] > 0 })
			if turns["slow"] > 2 {
				t.Errorf("who comes late waits for %d changes of a second", turns["slow"]-1)
			}
			before := turns["slow"]
			until(func() bool { return turns["slow"] == before+10 })
			if turns["slow"] != before+10 {
				t.Error("a tenant has no turns although nobody else has changed anything")
			}
		})
	}
}

// TestWhatWasBetweenIsFollowed has an object come, change and go while others of its
// namespace wait.
func TestWhatWasBetweenIsFollowed(t *testing.T) {
	var got []int64
	c := NewChangeQueue(func(_ context.Context, _ Queue[string], change Change) {
		for _, object := range change.States() {
			if object.GetName() == "short" {
				got = append(got, object.GetGeneration())
			}
		}
	})
	for n := range int64(apartMax) {
		c.AddChange(state("shop", "others", n), state("shop", "others", n+1))
	}
	c.AddChange(nil, state("shop", "short", 1))
	c.AddChange(state("shop", "short", 1), state("shop", "short", 2))
	c.AddChange(state("shop", "short", 2), nil)
	for c.FollowNext(t.Context(), nil) {
		continue
	}
	if want := []int64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("followed is what it was as %v, want %v", got, want)
	}
}

// TestWhatIsFollowedAgainIsNoChange has an object change more often than is kept apart, and somebody who has read it
// before have it followed again.
func TestWhatIsFollowedAgainIsNoChange(t *testing.T) {
	const times = 2*apartMax + betweenMax
	got := map[int64]bool{}
	followed := 0
	c := NewChangeQueue(func(_ context.Context, _ Queue[string], change Change) {
		followed++
		for _, object := range change.States() {
			got[object.GetGeneration()] = true
		}
	})
	for n := range int64(times) {
		c.AddChange(state("shop", "a", n), state("shop", "a", n+1))
	}
	c.NoteAgain(state("shop", "a", times-1))
	for c.FollowNext(t.Context(), nil) {
		continue
	}
	if !got[times] {
		t.Errorf("followed are %v, and not what it is in the end", got)
	}
	before := followed
	for range 2 {
		c.NoteAgain(state("shop", "a", times))
	}
	for c.FollowNext(t.Context(), nil) {
		continue
	}
	if followed != before+1 {
		t.Errorf("it is followed %d times again, want once", followed-before)
	}
}

func TestChangesAreFollowedWhileAControllerRuns(t *testing.T) {
	seen := make(chan string)
	c := NewChangeQueue(func(_ context.Context, _ Queue[string], change Change) { seen <- change.name.Name })
	c.AddChange(nil, state("shop", "before", 1))
	if err := c.ForwardChanges(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before", "after"} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("followed is %s, want %s", got, want)
			}
		case <-time.After(3 * time.Minute):
			t.Fatalf("%s is not followed", want)
		}
		if want == "before" {
			c.AddChange(nil, state("shop", "after", 1))
		}
	}
}
