// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEscape(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"text":                      {"name\tstate\nmember1\t✓ é €\n", "name\tstate\nmember1\t✓ é €\n"},
		"the cursor is not moved":   {"a\x1b[1Ab\rc\b", `a\u001b[1Ab\u000dc\u0008`},
		"nor by eight-bit controls": {"a\u009b1Ab", `a\u009b1Ab`},
		"nor by what is no UTF-8":   {"a\x9b1Ab", `a\u009b1Ab`},
		"the text is not turned":    {"a\u202eb\u2066c", `a\u202eb\u2066c`},
		"nothing is invisible":      {"a\u200bb\ufeffc\u00add\U000e0041", `a\u200bb\ufeffc\u00add\udb40\udc41`},
		"what stands for no UTF-8":  {"a\ufffdb", `a\ufffdb`},
		"DEL":                       {"a\x7fb", `a\u007fb`},
		"nothing":                   {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(c.text)+1; size++ { // however it is written
				var written bytes.Buffer
				out := Escape(&written)
				for rest := []byte(c.text); len(rest) > 0; {
					n := min(size, len(rest))
					if wrote, err := out.Write(rest[:n]); wrote != n || err != nil {
						t.Fatalf("wrote %d of %d bytes: %v", wrote, n, err)
					}
					rest = rest[n:]
				}
				if written.String() != c.want {
					t.Errorf("in pieces of %d bytes: got %q, want %q", size, written.String(), c.want)
				}
			}
		})
	}
}

// TestEscapedJSONIsTheSame reads JSON that was escaped.
func TestEscapedJSONIsTheSame(t *testing.T) {
	const text = "a\u009b\u202eb\x7f\u200d\U000e0041"
	encoded, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var read string
	if err := json.Unmarshal([]byte(EscapeText(string(encoded))), &read); err != nil || read != text {
		t.Errorf("read %q, want %q: %v", read, text, err)
	}
}
