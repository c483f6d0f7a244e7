// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// watched is a test that may fail.
type watched struct {
	testing.TB
	said []string
}

func (w *watched) Helper() {}

func (w *watched) Errorf(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *watched) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (w *watched) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// fatal returns what a test ends with.
func fatal(t *testing.T, test func(testing.TB)) (said string) {
	t.Helper()
	defer func() { said = fmt.Sprint(recover()) }()
	test(&watched{TB: t})
	return ""
}

func TestWhatNeverComesToPassIsTold(t *testing.T) {
	for want, test := range map[string]func(testing.TB){
		"condition Ready is missing": func(t testing.TB) { expect.Condition(t, nil, 1, metav1.Condition{Type: "Ready"}) },
		"no":                         func(t testing.TB) { expect.NoError(t, errors.New("no")) },
		"until pigs fly: they walk": func(t testing.TB) {
			expect.EventuallyWithin(t, time.Millisecond, "pigs fly", func() error { return errors.New("they walk") })
		},
		"until pigs fly: it never came to pass; they walk": func(t testing.TB) {
			expect.EventuallyTrue(t, time.Millisecond, "pigs fly", func() bool { return false }, func() string { return "they walk" })
		},
	} {
		if got := fatal(t, test); !strings.Contains(got, want) {
			t.Errorf("the test ends with %q, want %q", got, want)
		}
	}
	w := &watched{TB: t}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", Message: "all is well", ObservedGeneration: 2}
	expect.Condition(w, []metav1.Condition{ready}, 2, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", Message: "is"})
	if len(w.said) > 0 {
		t.Errorf("a condition that is as wanted is complained of: %q", w.said)
	}
	expect.Condition(w, []metav1.Condition{ready}, 3, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", Message: "was"})
	if len(w.said) != 2 {
		t.Errorf("of a condition with another message and generation the test says %q", w.said)
	}
	w.said = nil
	kept := map[string]any{"a": "b", "more": true, "list": []any{map[string]any{"c": int64(1)}}}
	expect.TreeKept(w, "a tree", map[string]any{"a": "b", "list": []any{map[string]any{"c": int64(1)}}}, kept)
	if len(w.said) > 0 {
		t.Errorf("a tree that has more is complained of: %q", w.said)
	}
	expect.TreeKept(w, "a tree", map[string]any{"a": map[string]any{}, "d": nil, "list": []any{map[string]any{"c": int64(2)}}, "more": []any{}}, kept)
	if got := strings.Join(w.said, ";"); got != "a tree: .a is b, and was map[];a tree: .d is lost;a tree: .list[0].c is 1, and was 2;a tree: .more is true, and was []" {
		t.Errorf("of a tree that has lost something the test says %s", got)
	}
	w.said = nil
	expect.TextHas(w, "a text", "a", "no such", "text")
	if got := strings.Join(w.said, ";"); got != `"a text" does not contain "no such"` {
		t.Errorf("the test says %s", got)
	}
}

func TestWhatComesToPassIsNotWaitedForLonger(t *testing.T) {
	expect.NoError(t, nil)
	looks := 0
	expect.Eventually(t, "it was tried three times", func() error {
		if looks++; looks < 3 {
			return errors.New("no")
		}
		return nil
	})
	expect.EventuallyTrue(t, expect.Patience, "it was tried four times", func() bool { looks++; return looks > 3 }, func() string { panic("it is told although it came to pass") })
	expect.EventuallySeen(t, "it was tried six times", func() (string, bool) { looks++; return fmt.Sprint(looks), looks > 5 })
	if looks != 6 {
		t.Errorf("it was looked %d times, want 6", looks)
	}
}
