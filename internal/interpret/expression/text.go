// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CEL counts what a function costs after the call, and cannot interrupt one.
// That is too late for those whose work or result grows with the product of
// what they are given: these are replaced here by ones that look first.
//
// textBytesMax is the length in bytes of a text that a function makes.
const textBytesMax = 256 << 10

// standard is the standard library without what is replaced here.
func standard() *env.LibrarySubset {
	return &env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction(overloads.Matches)}}
}

// textLibrary has the functions on texts that need a limit of their own.
type textLibrary struct {
	// format is the function of this name of the strings library.
	format   func(...ref.Val) ref.Val
	patterns *patterns
}

// boundedText must come after the strings library, whose functions it replaces.
func boundedText(known *patterns) cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		format, err := formatOf(e)
		if err != nil {
			return nil, err
		}
		return cel.Lib(textLibrary{format: format, patterns: known})(e)
	}
}

func formatOf(e *cel.Env) (func(...ref.Val) ref.Val, error) {
	declared, ok := e.Functions()["format"]
	if !ok {
		return nil, fmt.Errorf("the strings library has no function format")
	}
	bindings, err := declared.Bindings()
	if err != nil {
		return nil, fmt.Errorf("reading function format: %w", err)
	}
	for _, b := range bindings {
		if b.Operator == "string_format" && b.Function != nil {
			return b.Function, nil
		}
	}
	return nil, fmt.Errorf("function format has an unexpected form")
}

// CompileOptions declares the functions.
func (l textLibrary) CompileOptions() []cel.EnvOption {
	str := cel.StringType
	integer := cel.IntType
	text := cel.ListType(cel.StringType)
	args := func(types ...*cel.Type) []*cel.Type { return types }
	return []cel.EnvOption{
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", args(str, str, str), str, cel.FunctionBinding(replaceText)),
			cel.MemberOverload("string_replace_string_string_int", args(str, str, str, integer), str, cel.FunctionBinding(replaceText))),
		cel.Function("join",
			cel.MemberOverload("list_join", args(text), str,
				cel.UnaryBinding(func(list ref.Val) ref.Val { return joinList(list, types.String("")) })),
			cel.MemberOverload("list_join_string", args(text, str), str, cel.BinaryBinding(joinList))),
		cel.Function("indexOf",
			cel.MemberOverload("string_index_of_string", args(str, str), integer,
				cel.BinaryBinding(func(s, sub ref.Val) ref.Val { return indexOf(s, sub, types.IntZero) })),
			cel.MemberOverload("string_index_of_string_int", args(str, str, integer), integer,
				cel.FunctionBinding(func(a ...ref.Val) ref.Val { return indexOf(a[0], a[1], a[2]) }))),
		cel.Function("lastIndexOf",
			cel.MemberOverload("string_last_index_of_string", args(str, str), integer,
				cel.BinaryBinding(func(s, sub ref.Val) ref.Val { return lastIndexOf(s, sub, nil) })),
			cel.MemberOverload("string_last_index_of_string_int", args(str, str, integer), integer,
				cel.FunctionBinding(func(a ...ref.Val) ref.Val { return lastIndexOf(a[0], a[1], a[2]) }))),
		cel.Function("format",
			cel.MemberOverload("string_format", args(str, cel.ListType(cel.DynType)), str, cel.FunctionBinding(l.formatBounded))),
		cel.Function(overloads.Matches,
			cel.Overload(overloads.Matches, args(str, str), cel.BoolType),
			cel.MemberOverload(overloads.MatchesString, args(str, str), cel.BoolType),
			// One binding for both, since the name of the function is that of an overload.
			cel.SingletonBinaryBinding(l.patterns.matches, traits.MatcherType)),
		cel.Function("find",
			cel.MemberOverload("string_find_string", args(str, str), str, cel.BinaryBinding(l.patterns.find))),
		cel.Function("findAll",
			cel.MemberOverload("string_find_all_string", args(str, str), text,
				cel.BinaryBinding(func(s, pattern ref.Val) ref.Val { return l.patterns.findAll(s, pattern, types.Int(-1)) })),
			cel.MemberOverload("string_find_all_string_int", args(str, str, integer), text,
				cel.FunctionBinding(func(a ...ref.Val) ref.Val { return l.patterns.findAll(a[0], a[1], a[2]) }))),
	}
}

// ProgramOptions implements cel.Library.
func (textLibrary) ProgramOptions() []cel.ProgramOption { return nil }

// LibraryName lets CEL take the library once only.
func (textLibrary) LibraryName() string { return "capstan.text" }

func tooLong() ref.Val {
	return types.NewErr("the resulting string is longer than %d bytes, the limit", textBytesMax)
}

func replaceText(args ...ref.Val) ref.Val {
	s := string(args[0].(types.String))
	old := string(args[1].(types.String))
	with := string(args[2].(types.String))
	n := -1
	if len(args) == 4 {
		n = int(args[3].(types.Int))
	}
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	if grows := len(with) - len(old); grows > 0 && count > (textBytesMax-min(len(s), textBytesMax))/grows {
		return tooLong()
	}
	return types.String(strings.Replace(s, old, with, n))
}

func joinList(list, separator ref.Val) ref.Val {
	l := list.(traits.Lister)
	between := string(separator.(types.String))
	var b strings.Builder
	for i, size := types.Int(0), l.Size().(types.Int); i < size; i++ {
		item, ok := l.Get(i).(types.String)
		if !ok {
			return types.NewErr("join: item %d is not a string", int64(i))
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(string(item))
		if b.Len() > textBytesMax {
			return tooLong()
		}
	}
	return types.String(b.String())
}

// indexOf counts characters, as CEL does, and not bytes.
func indexOf(value, substring, offset ref.Val) ref.Val {
	s := string(value.(types.String))
	sub := string(substring.(types.String))
	from := int64(offset.(types.Int))
	if from < 0 {
		return types.NewErr("index out of range: %d", from)
	}
	start, ok := byteAt(s, from)
	if !ok {
		if sub == "" {
			return types.Int(utf8.RuneCountInString(s))
		}
		return types.Int(-1)
	}
	at := strings.Index(s[start:], sub)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(from + int64(utf8.RuneCountInString(s[start:start+at])))
}

// lastIndexOf finds the last place that is not after the offset; without an
// offset the last one.
func lastIndexOf(value, substring, offset ref.Val) ref.Val {
	s := string(value.(types.String))
	sub := string(substring.(types.String))
	end := len(s)
	if offset != nil {
		from := int64(offset.(types.Int))
		if from < 0 {
			return types.NewErr("index out of range: %d", from)
		}
		start, _ := byteAt(s, from)
		if start == len(s) && sub != "" {
			return types.Int(-1) // as CEL: no text begins at the end, so none is looked for
		}
		end = min(len(s), start+len(sub))
	}
	at := strings.LastIndex(s[:end], sub)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(s[:at]))
}

// byteAt returns where the character of a number begins, and whether there is
// one or it is the end of the text.
func byteAt(s string, character int64) (int, bool) {
	var n int64
	for i := range s {
		if n == character {
			return i, true
		}
		n++
	}
	return len(s), n == character
}

func (l textLibrary) formatBounded(args ...ref.Val) ref.Val {
	if deepSize(args[1].Value(), textBytesMax, sizeDepthMax)+len(args[0].(types.String)) > textBytesMax {
		return tooLong()
	}
	return l.format(args...)
}
