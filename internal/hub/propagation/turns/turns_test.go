// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// line is turns for two, and who was called.
type line struct {
	*Turns

	called []string
}

func newLine() *line {
	l := &line{}
	l.Turns = NewTurns(2, func(binding types.NamespacedName) { l.called = append(l.called, binding.Name) })
	return l
}

// named returns a binding, which is the only one of its namespace.
func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: name, Name: name}
}

// look looks at a binding that wants a turn. It reports whether it has it, which it keeps.
func (l *line) look(name string) bool {
	err := l.Take(named(name))
	l.MarkLooked(named(name))
	return err == nil
}

// TestTwoAtATime has five bindings want a turn, who come again and again: each gets it
// in the order in which they came, and never more than two have one.
func TestTwoAtATime(t *testing.T) {
	l, names := newLine(), []string{"a", "b", "c", "d", "e"}
	had := map[string]bool{}
	for range 3 {
		for i, name := range names {
			if got := l.look(name); got != (i < 2) {
				t.Errorf("%s has its turn: %t", name, got)
			}
		}
	}
	for _, name := range names {
		if !l.look(name) {
			t.Fatalf("%s has no turn although those before it had theirs", name)
		}
		had[name] = true
		l.Done(named(name))
	}
	if want := []string{"c", "d", "e"}; len(had) != 5 || !slices.Equal(slices.Compact(l.called), want) {
		t.Errorf("called are %v, want %v", l.called, want)
	}
	if len(l.has)+len(l.line)+len(l.asked) > 0 {
		t.Errorf("%v, %v and %v are remembered", l.has, l.line, l.asked)
	}
}

// TestWhoWantsNoTurnAnyMoreHoldsUpNobody has bindings that wait go, or be changed so
// that they need none.
func TestWhoWantsNoTurnAnyMoreHoldsUpNobody(t *testing.T) {
	l := newLine()
	for i := range 5 {
		l.look(fmt.Sprint(i))
	}
	l.MarkLooked(named("2")) // it is gone
	l.Done(named("0"))
	if want := []string{"3"}; !slices.Equal(l.called, want) {
		t.Fatalf("called are %v, want %v", l.called, want)
	}
	l.MarkLooked(named("3")) // it needs none
	if !l.look("4") {
		t.Error("the last has no turn although nobody is before it")
	}
}

// TestATurnIsTakenOnce has a binding take its turn more than once in a pass.
func TestATurnIsTakenOnce(t *testing.T) {
	l := newLine()
	for range 3 {
		if err := l.Take(named("a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Take(named("b")); err != nil {
		t.Error("a turn is taken more than once")
	}
	if err := l.Take(named("c")); !errors.Is(err, ErrWait) {
		t.Errorf("a third has a turn: %v", err)
	}
}

// TestATenantHasNotAllTurns has a hundred bindings of one tenant wait, and then some of
// others.
func TestATenantHasNotAllTurns(t *testing.T) {
	l := newLine()
	of := func(namespace string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s-%d", namespace, n)}
	}
	for n := range 100 {
		if err := l.Take(of("shop", n)); (err == nil) != (n == 0) {
			t.Fatalf("binding %d of the first tenant: %v", n, err)
		}
	}
	for n := range 3 {
		bank := of("bank", n)
		if err := l.Take(bank); err != nil {
			t.Fatalf("another tenant, whose binding %d waits alone, has no turn: %v", n, err)
		}
		l.Done(bank)
	}
	for n, binding := range []types.NamespacedName{of("bank", 3), of("mill", 0), of("bank", 4)} {
		if err := l.Take(binding); (err == nil) != (n == 0) {
			t.Fatalf("%s, when one is left: %v", binding, err)
		}
	}
	l.called = nil
	l.Done(of("bank", 3))
	if want := []string{"mill-0"}; !slices.Equal(l.called, want) {
		t.Errorf("called are %v, want %v, whose namespace has had no turn yet", l.called, want)
	}
	if err := l.Take(of("bank", 4)); !errors.Is(err, ErrWait) {
		t.Errorf("it is before the one that was called: %v", err)
	}
	l.called = nil
	l.Done(of("shop", 0)) // and the tenant with a hundred is not forgotten
	if want := []string{"mill-0", "shop-1"}; !slices.Equal(l.called, want) {
		t.Errorf("called are %v, want %v", l.called, want)
	}
}

// TestNewNamespacesDoNotComeFirst has a tenant make ever new namespaces, whose bindings want
// turns, while a binding of somebody waits who has had a turn before.
func TestNewNamespacesDoNotComeFirst(t *testing.T) {
	l := newLine()
	l.look("bank")
	l.Done(named("bank"))
	l.look("shop-0")
	l.look("shop-1")
	if l.look("bank") {
		t.Fatal("three have a turn")
	}
	for i := range 5 {
		l.look(fmt.Sprint("new-", i))
	}
	l.called = nil
	l.Done(named("shop-0"))
	if want := []string{"bank"}; !slices.Equal(l.called, want) {
		t.Errorf("called are %v, want %v, who waits for longest", l.called, want)
	}
}

// TestNamespacesThatAreGoneAreForgotten has many namespaces come and go.
func TestNamespacesThatAreGoneAreForgotten(t *testing.T) {
	l := newLine()
	for i := range 100 {
		has, waits, gone := fmt.Sprint("has-", i), fmt.Sprint("waits-", i), fmt.Sprint("gone-", i)
		for _, name := range []string{has, fmt.Sprint("too-", i), waits, gone} {
			l.look(name)
		}
		l.MarkLooked(named(gone))
		for _, name := range []string{has, fmt.Sprint("too-", i)} {
			l.Done(named(name))
		}
		if !l.look(waits) {
			t.Fatalf("%s has no turn", waits)
		}
		l.Done(named(waits))
	}
	if len(l.last)+len(l.Turns.called) > 0 {
		t.Errorf("%d namespaces and %d bindings are remembered of which nothing waits", len(l.last), len(l.Turns.called))
	}
}
