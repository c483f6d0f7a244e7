// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exit contains the exit codes of capstan, and errors with the next
// step.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The exit codes. They are stable: scripts rely on them.
const (
	// OK means that everything that was asked for is done.
	OK = 0
	// Failed means that something that was asked for was not done.
	Failed = 1
	// Usage means that the command line makes no sense; nothing was done.
	Usage = 2
	// NoHub means that the hub could not be asked: there is no kubeconfig, the hub
	// does not answer, refuses the credentials, or is not a Capstan hub.
	NoHub = 3
	// TimedOut means that everything was done, but what it was waited for did not
	// happen in time.
	TimedOut = 4
	// NoMember means that a member could not be asked: its kubeconfig leads to no
	// cluster, or the member does not answer or refuses the credentials.
	NoMember = 5
	// Interrupted means that the user stopped the command (Ctrl-C).
	Interrupted = 130
)

// Error is an error with the next step that the user can take.
type Error struct {
	// Err is what went wrong.
	Err error
	// Next is what to do about it: a sentence, which may have several lines.
	Next string
	// Code is the exit code; 0 means Failed.
	Code int
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// UsageError returns an error in the command line.
func UsageError(format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Code: Usage}
}

// Next adds the next step to an error. Of several next steps the first, which
// is nearest to the cause, counts.
func Next(err error, format string, args ...any) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{Err: err, Next: fmt.Sprintf(format, args...)}
}

// Code returns the exit code for the error that a command returned. Of several
// errors with different codes it is Failed.
func Code(err error) int {
	codes := map[int]bool{}
	for _, e := range splitErrors(err) {
		codes[singleErrorCode(e)] = true
	}
	switch {
	case err == nil:
		return OK
	case len(codes) > 1:
		return Failed
	}
	for c := range codes {
		return c
	}
	return Failed
}

func singleErrorCode(err error) int {
	var known *Error
	switch {
	case errors.As(err, &known) && known.Code != 0:
		return known.Code
	case errors.Is(err, context.Canceled):
		return Interrupted
	default:
		return Failed
	}
}

// FormatError returns what to tell the user about an error: what went wrong, and on
// the lines below it the next step; one after the other if there are several. Both may
// repeat what a member has written: all their lines but the first are indented, so that none looks like one of ours.
func FormatError(err error) string {
	text := ""
	for _, e := range splitErrors(err) {
		text += "error: " + indentFurtherLines(e.Error()) + "\n"
		var known *Error
		if errors.As(e, &known) && known.Next != "" {
			text += indentFurtherLines(known.Next) + "\n"
		}
	}
	return text
}

// indentFurtherLines returns a text whose lines are indented, but for the first.
func indentFurtherLines(text string) string {
	const indent = "  "
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && line != "" && !strings.HasPrefix(line, indent) {
			lines[i] = indent + line
		}
	}
	return strings.Join(lines, "\n")
}

// splitErrors returns the errors that errors.Join has put together.
func splitErrors(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, splitErrors(e)...)
	}
	return all
}

// WaitedTooShort gives an error of this package the exit code for a wait that
// was too short, unless it was the user who ended it, by the context.
func WaitedTooShort(ctx context.Context, err error) error {
	known := &Error{}
	if ctx.Err() != nil || !errors.As(err, &known) {
		return ctx.Err()
	}
	return &Error{Err: fmt.Errorf("timed out: %w", known.Err), Next: known.Next, Code: TimedOut}
}
