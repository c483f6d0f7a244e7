// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/apply"
)

// TestWorksAreNamedInAConflict has names of works and managers that are like each other, as a member can choose them.
func TestWorksAreNamedInAConflict(t *testing.T) {
	const advice = " Works do not overwrite each other: keep the fields in one of them only."
	d := &disagreement{works: map[string]string{"m1": `ManifestWork "a(m2)"`, "m2": `ManifestWork "b(m1)"`}}
	for range 20 { // the order of a map is another each time
		if got, want := d.explain(".a (m1), .b (m2), .c (m3)."), `.a (ManifestWork "a(m2)"), .b (ManifestWork "b(m1)"), .c (m3).`+advice; got != want {
			t.Fatalf("the message is %q, want %q", got, want)
		}
	}
	d.works = map[string]string{
		"m1": strings.Repeat("(m2)", 250), "m2": strings.Repeat("x", 1000), "": strings.Repeat("y", 1000), strings.Repeat("m", 1<<20): "",
	}
	if got := d.explain(strings.Repeat("(m1)()", apply.MessageBytesMax/6)); len(got) > apply.MessageBytesMax+len(advice) || !strings.HasSuffix(got, advice) {
		t.Errorf("the message has %d bytes: %.100q", len(got), got)
	}
}
