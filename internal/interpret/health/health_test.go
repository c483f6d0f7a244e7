// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

func TestAReasonOfAnObjectIsOneWord(t *testing.T) {
	t.Parallel()
	const otherwise = "Otherwise"
	for name, c := range map[string]struct{ given, want string }{
		"none":                      {"", otherwise},
		"a word in CamelCase":       {"FailedCreate", "FailedCreate"},
		"a word in lower case":      {"failed", "failed"},
		"one with a digit":          {"Http404", "Http404"},
		"one that begins with one":  {"404NotFound", otherwise},
		"two words":                 {"Failed Create", otherwise},
		"a line break":              {"Failed\nCreate", otherwise},
		"a hyphen":                  {"failed-create", otherwise},
		"an escape sequence":        {"Failed\x1b[2J", otherwise},
		"a letter that is no ASCII": {"Fehlgeschlagén", otherwise},
		"no text":                   {"Failed\xff", otherwise},
		"as long as it may be":      {strings.Repeat("R", 100), strings.Repeat("R", 100)},
		"longer":                    {strings.Repeat("R", 101), otherwise},
	} {
		if got := health.ReasonOr(c.given, otherwise); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatAnObjectSaysEndsWithOneFullStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"nothing":           {"", "It failed."},
		"blanks":            {" \n\t", "It failed."},
		"words":             {"exceeded quota", "It failed: exceeded quota."},
		"a sentence":        {"Quota is exceeded.", "It failed: Quota is exceeded."},
		"blanks around one": {"\n Quota is exceeded. ", "It failed: Quota is exceeded."},
	} {
		if got := health.SentenceWithCause("It failed", c.given); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAMessageIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	const most = 1024
	for name, c := range map[string]struct{ message, want string }{
		"as long as it may be":        {strings.Repeat("m", most), strings.Repeat("m", most)},
		"one byte longer":             {strings.Repeat("m", most+1), strings.Repeat("m", most-3) + "..."},
		"a character at the cut":      {strings.Repeat("é", most), strings.Repeat("é", (most-3)/2) + "..."},
		"a wide character at the cut": {"mm" + strings.Repeat("🙂", most), "mm" + strings.Repeat("🙂", (most-3-2)/4) + "..."},
	} {
		got := health.Degraded.WithReason("Reason", "%s", c.message).Message
		if diff := cmp.Diff(c.want, got); diff != "" || !utf8.ValidString(got) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheHealthThatAConditionTells: what a condition says is a member's text. It is no
// format, and no reason unless it can be one.
func TestTheHealthThatAConditionTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		condition fields.Condition
		want      health.Health
	}{
		"a reason and a message": {
			fields.Condition{Reason: "FailedCreate", Message: "exceeded quota"},
			health.Health{Status: health.Degraded, Reason: "FailedCreate", Message: "No pods: exceeded quota."},
		},
		"neither": {fields.Condition{}, health.Health{Status: health.Degraded, Reason: "ReplicaFailure", Message: "No pods."}},
		"a reason that is none, and a message with verbs of a format": {
			fields.Condition{Reason: "no reason", Message: "100%s of %d"},
			health.Health{Status: health.Degraded, Reason: "ReplicaFailure", Message: "No pods: 100%s of %d."},
		},
	} {
		if diff := cmp.Diff(c.want, health.Degraded.FromCondition(c.condition, "ReplicaFailure", "No pods")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
