// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// TestWhatIsMoreImportantComesFirst adds many keys that wait, in the order of
// their names, and takes them out.
func TestWhatIsMoreImportantComesFirst(t *testing.T) {
	ranks := &Ranks[string]{}
	q := NewQueue(ranks.RankOf, Share[string]{})("", workqueue.DefaultTypedControllerRateLimiter[string]()).(priorityqueue.PriorityQueue[string])
	defer q.ShutDown()
	q.Add("first")
	q.GetWithPriority()

	AddLater(q, "confirmed", 0)
	ranks.SetRank("urgent-confirmed", 2_000_000_000)
	AddLater(q, "urgent-confirmed", 0)
	want := []string{"urgent", "important", "late"}
	for i := range 100 {
		key := fmt.Sprintf("usual-%02d", i)
		q.Add(key)
		want = append(want, key)
	}
	ranks.SetRank("patient", -5)
	q.Add("patient")
	ranks.SetRank("important", 10)
	q.Add("important")
	ranks.SetRank("urgent", 1_000_000_000)
	q.Add("urgent")
	q.Add("late")
	ranks.SetRank("late", 5)
	q.Add("late") // its rank has become known since
	want = append(want, "patient", "urgent-confirmed", "confirmed")

	var got []string
	for range want {
		key, priority, _ := q.GetWithPriority()
		got = append(got, key)
		if waits := key == "confirmed" || key == "urgent-confirmed"; waits != (priority < 0) {
			t.Errorf("%s is handed out with priority %d", key, priority)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is\n%v, want\n%v", got, want)
	}
}

// TestNoKeyIsAlwaysFirst starts again and again with the same keys.
func TestNoKeyIsAlwaysFirst(t *testing.T) {
	first := map[string]bool{}
	for range 100 {
		ranks := &Ranks[string]{}
		q := NewQueue(ranks.RankOf, Share[string]{})("", workqueue.DefaultTypedControllerRateLimiter[string]()).(priorityqueue.PriorityQueue[string])
		for i := range 20 {
			q.Add(fmt.Sprintf("usual-%02d", i))
		}
		ranks.SetRank("important", 1)
		q.Add("important")
		if key, _, _ := q.GetWithPriority(); key != "important" {
			t.Errorf("%s comes before what is more important", key)
		}
		key, _, _ := q.GetWithPriority()
		first[key] = true
		q.Add("later")
		for range 19 {
			if key, _, _ := q.GetWithPriority(); key == "later" {
				t.Error("what came after the start comes before what was there")
			}
		}
		q.ShutDown()
	}
	if len(first) < 2 {
		t.Errorf("always the same is first: %v", first)
	}
}

// TestNobodyHasAllWorkers has workers look at keys of one namespace that take for ever, and
// counts how many there are.
func TestNobodyHasAllWorkers(t *testing.T) {
	const most = 3
	ranks := &Ranks[string]{}
	namespace := func(key string) string { return strings.Split(key, "/")[0] }
	q := NewQueue(ranks.RankOf, Share[string]{Of: namespace, Most: most})("", workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(of string, n int) {
		for i := range n {
			q.Add(fmt.Sprintf("%s/%02d", of, i))
		}
	}
	take := func(of string) (key string) {
		t.Helper()
		key, _ = q.Get()
		if namespace(key) != of {
			t.Fatalf("%s is looked at, want one of %s", key, of)
		}
		return key
	}
	add("slow", 20)
	var slow []string
	for range most {
		slow = append(slow, take("slow"))
	}
	add("quick", 2*most)
	for range 2 * most { // one after the other
		q.Done(take("quick"))
	}
	for range 20 - most { // those that wait have their turns
		q.Done(slow[0])
		slow = append(slow[1:], take("slow"))
	}
	for _, key := range slow {
		q.Done(key)
	}
	add("slow", 1)
	take("slow")
	add("quick", 1)
	take("quick")
	q.ShutDown()
	if key, shutdown := q.Get(); !shutdown {
		t.Errorf("%s is looked at after the end", key)
	}
}

// TestATenantHasNotAllWorkers has objects of one tenant waiting, each of which takes long,
// and then one of another.
func TestATenantHasNotAllWorkers(t *testing.T) {
	options := SharedOptions(4, func(key string) string { return strings.Split(key, "/")[0] })
	q := options.NewQueue("", workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	for n := range 100 {
		q.Add(fmt.Sprintf("shop/%d", n))
	}
	q.Add("bank/0")
	for range options.MaxConcurrentReconciles {
		if key, _ := q.Get(); key == "bank/0" {
			return
		}
	}
	t.Errorf("%d workers look at objects of one namespace", options.MaxConcurrentReconciles)
}

// TestWhatCanWaitStaysSo adds a key again as a controller does, with the priority
// that it was handed out with.
func TestWhatCanWaitStaysSo(t *testing.T) {
	ranks := &Ranks[string]{}
	ranks.SetRank("important", 7)
	q := NewQueue(ranks.RankOf, Share[string]{})("", workqueue.DefaultTypedControllerRateLimiter[string]()).(priorityqueue.PriorityQueue[string])
	defer q.ShutDown()
	AddLater(q, "important", 0)
	key, priority, _ := q.GetWithPriority()
	q.Done(key)
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
	q.Add("usual")
	if first, _, _ := q.GetWithPriority(); first != "usual" {
		t.Errorf("%s comes first, want what does not wait", first)
	}
	ranks.SetRank("important", 0)
	if rank := ranks.RankOf("important"); rank != 0 {
		t.Errorf("the rank is %d after it was taken back", rank)
	}
}
