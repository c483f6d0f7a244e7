// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package yamlalias

import (
	"strings"
	"testing"
)

func TestRefuse(t *testing.T) {
	for text, wants := range map[string]string{
		"":                            "",
		"a: &b c":                     "",
		`{"a":"*b","c":["*"]}`:        "",
		"a: '*b'\nc: d * e\n":         "",
		"# *b\na: |\n  *b\n":          "",
		"a: &b c\nd: *b":              "it has aliases",
		"a: &b {c: d}\ne: {<<: *b}":   "it has aliases",
		"[&a x, [[[*a]]]]":            "it has aliases",
		"a: *b":                       "it is not YAML",
		"{*":                          "it is not YAML",
		"a: b\n---\nc: &d e\nf: *d\n": "", // of several documents, readers take the first
	} {
		if err := RefuseAliases([]byte(text)); (err == nil) != (wants == "") || err != nil && !strings.Contains(err.Error(), wants) {
			t.Errorf("%q: it says %v, want %q", text, err, wants)
		}
	}
}
