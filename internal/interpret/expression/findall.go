// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// matchesMax is the number of texts that findAll returns.
	matchesMax = 10_000
	// searchSteps is how many steps it takes to begin to look for one more.
	searchSteps = 50
)

// foundTexts is the list that findAll returns, with the steps that it took.
type foundTexts struct {
	traits.Lister

	steps int
}

// findAll finds what regexp.FindAllString does. For each match that may read all of the rest of the
// text, or hardly more than the match, which nobody knows before: it ends when what it has read has taken as
// many steps as one call may.
func (p *patterns) findAll(value, text, limit ref.Val) ref.Val {
	s := string(value.(types.String))
	n := int(limit.(types.Int))
	found, failure := p.fits(s, string(text.(types.String)))
	if failure != nil {
		return failure
	}
	if n < 0 || n > matchesMax {
		n = matchesMax + 1
	}
	var all []string
	left := patternStepsMax - found.steps(len(s))
	if found.literal {
		all = found.compiled.FindAllString(s, n)
	} else {
		search := matchSearch{pattern: found, text: s, left: patternStepsMax}
		all = search.findTexts(n)
		left = search.left
	}
	switch {
	case left < 0:
		return types.NewErr("findAll reads so much of the string again for each match that it takes too long; use find, or a regular expression that says where a match ends")
	case len(all) > matchesMax:
		return types.NewErr("findAll finds more than %d strings, the limit", matchesMax)
	}
	return foundTexts{Lister: types.NewStringList(types.DefaultTypeAdapter, all), steps: patternStepsMax - left}
}

// matchSearch looks for a regular expression in a text again and again, for so many steps.
type matchSearch struct {
	pattern pattern
	text    string
	left    int
}

// findTexts returns the first matches, n at most. They are worth nothing if no steps are left.
func (s *matchSearch) findTexts(n int) (all []string) {
	begin := 0
	last := -1 // where the last match ended
	for begin <= len(s.text) && len(all) < n {
		from, to, is := s.findNext(begin)
		if !is || s.left < 0 {
			break
		}
		empty := to == begin
		if !empty || from != last {
			all = append(all, s.text[from:to])
		}
		begin = to
		last = to
		if empty {
			_, width := utf8.DecodeRuneInString(s.text[begin:])
			begin += max(1, width)
		}
	}
	return all
}

// findNext returns where the first match is that begins at a place or after it. The character before
// that is read as well, as there are regular expressions that ask for it.
func (s *matchSearch) findNext(begin int) (from, to int, is bool) {
	s.left -= searchSteps
	if begin == 0 {
		place := s.pattern.compiled.FindReaderIndex(&countedText{rest: s.text, each: s.pattern.size, left: &s.left})
		if place == nil {
			return 0, 0, false
		}
		return place[0], place[1], true
	}
	_, width := utf8.DecodeLastRuneInString(s.text[:begin])
	begin -= width
	place := s.pattern.inRest().FindReaderSubmatchIndex(&countedText{rest: s.text[begin:], each: s.pattern.size, left: &s.left})
	if place == nil {
		return 0, 0, false
	}
	return begin + place[2], begin + place[3], true
}

// inRestOf returns what finds a regular expression, which is a valid one, as a group in a text after the first
// character of that.
func inRestOf(text string) *regexp.Regexp {
	group := "(" + text + ")"
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		group = "(" + parsed.String() + ")" // what is quoted without an end has one now
	}
	return regexp.MustCompile(`\A(?s:.)(?s:.*?)` + group)
}

// countedText is a text that ends when no steps are left. Each of its bytes takes some.
type countedText struct {
	rest string
	each int
	left *int
}

// ReadRune implements io.RuneReader.
func (t *countedText) ReadRune() (char rune, width int, err error) {
	if t.rest == "" || *t.left < 0 {
		return 0, 0, io.EOF
	}
	char, width = utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[width:]
	*t.left -= width * t.each
	return char, width, nil
}
