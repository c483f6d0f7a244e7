// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pattern_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/gopher-lua/pm"

	"github.com/capstan-io/capstan/internal/interpret/lua/pattern"
)

// outcome is what a pattern finds in a text: the bounds of the whole and of each
// capture, of a position both the same; or that the pattern is none.
type outcome struct {
	Invalid bool
	Bounds  [][2]int
}

// failure is what Fail panics with here.
type failure string

func find(text, of string) (got outcome, why string) {
	defer func() {
		if r := recover(); r != nil {
			message, ok := r.(failure)
			if !ok {
				panic(r)
			}
			got, why = outcome{Invalid: true}, string(message)
		}
	}()
	m := &pattern.Matcher{Text: text, Pattern: of, Step: func() {}, Fail: func(message string) { panic(failure(message)) }}
	start, end, found := m.FindMatch(0)
	if !found {
		return outcome{}, ""
	}
	got.Bounds = [][2]int{{start, end}}
	for _, c := range m.Captures {
		if c.IsUnfinished() {
			return outcome{Invalid: true}, "a capture is not ended"
		}
		got.Bounds = append(got.Bounds, [2]int{c.Start, c.Start + max(0, c.Length)})
	}
	return got, ""
}

// findByGopherLua does so with the matcher of gopher-lua.
func findByGopherLua(text, of string) outcome {
	matches, err := pm.Find(of, []byte(text), 0, 1)
	if err != nil {
		return outcome{Invalid: true}
	}
	if len(matches) == 0 {
		return outcome{}
	}
	var got outcome
	for i := 0; i < matches[0].CaptureLength(); i += 2 {
		start, end := matches[0].Capture(i), matches[0].Capture(i+1)
		if matches[0].IsPosCapture(i) {
			end = start
		}
		got.Bounds = append(got.Bounds, [2]int{start, end})
	}
	return got
}

// TestPatternsFindWhatThoseOfGopherLuaDo compares patterns put together by chance with
// the matcher of another implementation.
func TestPatternsFindWhatThoseOfGopherLuaDo(t *testing.T) {
	t.Parallel()
	items := []string{"a", "b", ".", "%a", "%d", "%s", "%w", "%x", "%D", "%.", "[ab]", "[^a]", "[a-c1-3]", "[%d_]"}
	often := []string{"", "", "", "*", "+", "-", "?"}
	const letters = "aabbc12 ._"
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for range 20_000 {
		var p, text strings.Builder
		if chance.IntN(4) == 0 {
			p.WriteByte('^')
		}
		for range 1 + chance.IntN(4) {
			item := items[chance.IntN(len(items))] + often[chance.IntN(len(often))]
			if chance.IntN(3) == 0 {
				item = "(" + item + ")"
			}
			p.WriteString(item)
		}
		if chance.IntN(4) == 0 {
			p.WriteByte('$')
		}
		for range chance.IntN(12) {
			text.WriteByte(letters[chance.IntN(len(letters))])
		}
		got, why := find(text.String(), p.String())
		if want := findByGopherLua(text.String(), p.String()); !cmp.Equal(want, got) {
			t.Fatalf("seed %d: %q in %q gives %v %s, and with gopher-lua %v", seed, p.String(), text.String(), got, why, want)
		}
		if len(got.Bounds) > 0 {
			found++
		}
	}
	if found < 5000 {
		t.Errorf("of 20000 patterns only %d find something", found)
	}
}

// TestPatternsAsTheManualHasThem: what chance does not make, by the Lua 5.1 reference
// manual, §5.4.1.
func TestPatternsAsTheManualHasThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, pattern string
		want          string
	}{
		{"THE (quick) fox", "%f[%a]%a+%f[%A]", "[[0 3]]"},
		{"f(a(b)c)d", "%b()", "[[1 8]]"},
		{"f(a(b", "%b()", "[]"},
		{"hello", "()ll()", "[[2 4] [2 2] [4 4]]"},
		{"abcabc", "(a)(b)c%1%2", "[[0 5] [0 1] [1 2]]"},
		{"x = 12", "^(%w+)%s*=%s*(%d+)$", "[[0 6] [0 1] [4 6]]"},
		{"a.b", "%.", "[[1 2]]"},
		{"a]b", "[]]", "[[1 2]]"},
		{"a]b", "[%]x]", "[[1 2]]"},
		{"a-b", "[a%-]+", "[[0 2]]"},
		{"a$b", "a$b", "[[0 3]]"},
		{"aaa", "a-", "[[0 0]]"},
		{"aaab", "(a-)b", "[[0 4] [0 3]]"},
		{"", "", "[[0 0]]"},
		{"a\x00b", "%z", "[[1 2]]"},
		{"aB", "%u%L*", "[[1 2]]"},
	} {
		if got, why := find(c.text, c.pattern); fmt.Sprint(got.Bounds) != c.want || got.Invalid {
			t.Errorf("%q in %q gives %v %s, want %s", c.pattern, c.text, got.Bounds, why, c.want)
		}
	}
}

func TestWhatIsNoPattern(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{
		"%":                        "it ends with '%'",
		"[a":                       "a '[' has no ']'",
		"[%":                       "a '[' has no ']'",
		"a)":                       "a ')' has no '('",
		"(a":                       "a capture is not ended",
		"%b(":                      "%b needs two characters",
		"%fa":                      "%f needs a set in brackets",
		"%1":                       "there is no capture %1",
		"(a%1)":                    "there is no capture %1",
		strings.Repeat("(a?)", 33): "it has too many captures",
	} {
		if got, why := find("aa", of); !got.Invalid || why != want {
			t.Errorf("%q gives %v %q, want %q", of, got, why, want)
		}
	}
}

// TestEveryStepIsCounted: who counts the steps can end a pattern that takes long.
func TestEveryStepIsCounted(t *testing.T) {
	t.Parallel()
	for _, of := range []string{".-.-.-b", "a*a*a*b", "(a*)(a*)b", "%ba(", "[^b]*b", "a+b"} { // at least a step for each pair of characters
		steps := func(length int) int {
			n := 0
			m := &pattern.Matcher{Text: strings.Repeat("a", length), Pattern: of, Step: func() { n++ }, Fail: func(message string) { t.Fatal(message) }}
			if _, _, found := m.FindMatch(0); found {
				t.Errorf("%q is found", of)
			}
			return n
		}
		if short, long := steps(20), steps(40); long < 3*short {
			t.Errorf("%q takes %d steps in 20 characters and %d in 40: some are not counted", of, short, long)
		}
	}
}
