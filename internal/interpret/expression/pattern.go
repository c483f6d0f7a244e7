// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/capstan-io/capstan/internal/untrusted/memo"
)

const (
	// patternBytesMax is the length of a regular expression in bytes.
	patternBytesMax = 1 << 10
	// patternSizeMax is about the number of instructions that a regular expression
	// compiles to; what is in a{9} counts nine times.
	patternSizeMax = 1000
	// patternStepsMax is the length of a text times the size of its regular
	// expression: a match may take as many steps. No call takes longer than what one
	// expression may cost, as the price of a call is only known after it.
	patternStepsMax = CostMax * bytesPerCost / stepBytes
	// patternsBytesSum is the length of the regular expressions together that are
	// remembered: about 30 of them, as one of a few bytes may become 200 KiB.
	patternsBytesSum = 16 << 10
)

// How long a regular expression takes, measured in bytes of text that are copied in that time.
const (
	// compileBytes is for one of no instructions, and instructionBytes for each of them.
	compileBytes, instructionBytes = 2000, 40
	// stepBytes is for an instruction that is tried at one byte of the text.
	stepBytes = 4
	// classBytes is for a class of Unicode, such as \p{L}, which has hundreds of ranges.
	classBytes = 10_000
	// foldBytes is for a range that may have 100,000 characters, each of which is looked
	// up in both cases.
	foldBytes = 500_000
)

// pattern is a regular expression that was compiled, or what is wrong with it.
type pattern struct {
	compiled *regexp.Regexp
	// inRest returns what finds it, as a group, in a text after the first character of that.
	inRest  func() *regexp.Regexp
	problem string
	// size is about the number of its instructions.
	size int
	// literal says that it is a plain text.
	literal bool
}

// patterns remember what was compiled. They are safe for concurrent use.
type patterns struct{ known *memo.Memo[pattern] }

func newPatterns() *patterns { return &patterns{known: memo.NewMemo[pattern](patternsBytesSum)} }

// of returns the regular expression that a text is.
func (p *patterns) of(text string) pattern {
	if len(text) > patternBytesMax {
		return pattern{problem: fmt.Sprintf("the regular expression is longer than %d bytes, the limit", patternBytesMax)}
	}
	if known, is := p.known.Get(text); is {
		return known
	}
	return p.known.StoreIfAbsent(text, parsePattern(text))
}

func parsePattern(text string) pattern {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{problem: fmt.Sprintf("the regular expression is not valid: %v", err)}
	}
	size := patternSize(parsed)
	if size > patternSizeMax {
		return pattern{problem: "the regular expression repeats too much"}
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return pattern{problem: fmt.Sprintf("the regular expression is not valid: %v", err)}
	}
	literal := parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0
	inRest := sync.OnceValue(func() *regexp.Regexp { return inRestOf(text) })
	return pattern{compiled: compiled, inRest: inRest, size: size, literal: literal}
}

// steps is how many steps it may take to find something in a text of so many bytes.
func (p pattern) steps(length int) int {
	if p.literal {
		return length + 1
	}
	return (length + 1) * p.size
}

// fits returns the regular expression that a text is, if it can be looked for in another
// one: nothing in CEL interrupts that.
func (p *patterns) fits(value, text string) (pattern, ref.Val) {
	found := p.of(text)
	switch {
	case found.problem != "":
		return found, types.NewErr("%s", found.problem)
	case found.steps(len(value)) > patternStepsMax:
		return found, types.NewErr("the regular expression and the string are too long in combination")
	}
	return found, nil
}

// patternSize is about the number of instructions of a regular expression, or
// something beyond patternSizeMax.
func patternSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += 1 + patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size = min(size, patternSizeMax+1) * max(re.Min, re.Max, 1)
	}
	return min(size, patternSizeMax+1)
}

// work is about how long a call takes that looks for a regular expression, in bytes of text
// that are copied in that time. It is the same whether the expression was remembered.
func (p *patterns) work(args []ref.Val, result ref.Val) uint64 {
	if len(args) < 2 {
		return compileBytes
	}
	value, isText := args[0].(types.String)
	text, isPattern := args[1].(types.String)
	if !isText || !isPattern || len(text) > patternBytesMax {
		return compileBytes // it was refused
	}
	found := p.of(string(text))
	steps := found.steps(len(value))
	switch all, many := result.(foundTexts); {
	case steps > patternStepsMax:
		steps = 0 // it was refused
	case many:
		steps = all.steps
	case types.IsError(result) && found.problem == "" && !found.literal:
		// findAll has taken all that it may. With half of that, its author hears why, and cannot
		// have it do so again and again where errors do not count, as in exists.
		steps = patternStepsMax / 2
	}
	return uint64(compileBytes+found.size*instructionBytes+steps*stepBytes) + unicodeWork(string(text)) //nolint:gosec // of positive numbers
}

// unicodeWork is what it takes to compile what a regular expression says of characters
// beyond ASCII.
func unicodeWork(text string) uint64 {
	work := (strings.Count(text, `\p`) + strings.Count(text, `\P`)) * classBytes
	if namesBeyondASCII(text) && strings.Contains(text, "(?") && strings.Contains(text, "i") {
		work += strings.Count(text, "-") * foldBytes
	}
	return uint64(work) //nolint:gosec // of counts
}

// namesBeyondASCII reports whether a regular expression may name a character beyond ASCII: as it
// is, or by its number.
func namesBeyondASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || text[i] == '\\' && i+1 < len(text) && strings.IndexByte("x01234567", text[i+1]) >= 0 {
			return true
		}
	}
	return false
}

func (p *patterns) matches(value, text ref.Val) ref.Val {
	s, ok := value.(types.String)
	t, isText := text.(types.String)
	if !ok || !isText {
		return types.NewErr("no such overload: %s.matches(%s)", value.Type(), text.Type())
	}
	found, failure := p.fits(string(s), string(t))
	if failure != nil {
		return failure
	}
	return types.Bool(found.compiled.MatchString(string(s)))
}

func (p *patterns) find(value, text ref.Val) ref.Val {
	s := string(value.(types.String))
	found, failure := p.fits(s, string(text.(types.String)))
	if failure != nil {
		return failure
	}
	return types.String(found.compiled.FindString(s))
}
