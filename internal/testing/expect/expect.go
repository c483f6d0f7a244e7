// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect has the words in which tests say what they expect: that something succeeds,
// that it comes to pass, that a text says something.
package expect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for something before it fails.
const Patience = time.Minute

const (
	// firstPause is that between the first two looks; each pause is twice the one before it, up
	// to the last one.
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until there is no error, and ends the test with the last one if there is
// always one.
func Eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, what, try)
}

// EventuallyWithin is Eventually with another patience.
func EventuallyWithin(t testing.TB, patience time.Duration, what string, try func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s until %s: %v", patience, what, err)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			t.Fatalf("cut off while waiting until %s: %v", what, err)
		}
	}
}

// EventuallyTrue waits until something holds. If it never does, each of the functions tells how
// things are.
func EventuallyTrue(t testing.TB, patience time.Duration, what string, holds func() bool, tell ...func() string) {
	t.Helper()
	EventuallyWithin(t, patience, what, func() error {
		if holds() {
			return nil
		}
		return unseen(tell)
	})
}

// NothingWrong waits until nothing is wrong, and ends the test with what is if that does not come.
func NothingWrong(t testing.TB, patience time.Duration, what string, wrong func() string) {
	t.Helper()
	EventuallyWithin(t, patience, what, func() error {
		if problem := wrong(); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
}

// unseen is that something does not hold. How things are is not looked at before it is told.
type unseen []func() string

func (tell unseen) Error() string {
	text := "it never came to pass"
	for _, f := range tell {
		text += "; " + f()
	}
	return text
}

// EventuallySeen waits until what is looked at is as it should be, and ends the test with how
// it was last if it never is.
func EventuallySeen(t testing.TB, what string, look func() (state string, ok bool)) {
	t.Helper()
	Eventually(t, what, func() error {
		state, ok := look()
		if ok {
			return nil
		}
		return fmt.Errorf("at last there was %s", state)
	})
}

// TextHas expects a text to have all of the parts.
func TextHas(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}
