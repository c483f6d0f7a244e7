// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// What the functions of Kubernetes and of CEL's own libraries read is short, so
// that a call costs next to nothing. A longer text is not one of what the
// function reads.
const (
	// quantityBytesMax is the length of a quantity in bytes.
	quantityBytesMax = 100
	// exponentDigitsMax is how many digits the exponent of a quantity has, as
	// reading one writes out all of its zeros.
	exponentDigitsMax = 2
	// addressBytesMax is the length of an IP address or a CIDR in bytes.
	addressBytesMax = 64
	// urlBytesMax is the length of a URL in bytes.
	urlBytesMax = 8 << 10
	// versionBytesMax is the length of a semantic version in bytes.
	versionBytesMax = 256
	// formattedBytesMax is the length in bytes of a text that a format validates.
	formattedBytesMax = 8 << 10
	// setWorkMax is how much the functions of sets may compare: about the number
	// of bytes of a set times the number of items of the other one.
	setWorkMax = CostMax * bytesPerCost
)

// guard looks at the arguments of a function before it is called. It returns
// nil, or what the call gives instead.
type guard func(args []ref.Val) ref.Val

// functionGuards are the functions that are called only with arguments that are small
// enough.
func functionGuards() map[string]guard {
	address := atMost("an IP address or a CIDR", addressBytesMax)
	url := atMost("a URL", urlBytesMax)
	version := atMost("a semantic version", versionBytesMax)
	return map[string]guard{
		"quantity": refuseArguments(quantityProblem), "isQuantity": denyArguments(quantityProblem),
		"ip": refuseArguments(address), "isIP": denyArguments(address), "ip.isCanonical": refuseArguments(address),
		"cidr": refuseArguments(address), "isCIDR": denyArguments(address), "containsIP": refuseArguments(address), "containsCIDR": refuseArguments(address),
		"url": refuseArguments(url), "isURL": denyArguments(url),
		"semver": refuseArguments(version), "isSemver": denyArguments(version),
		"validate":      validateShort,
		"sets.contains": smallSets, "sets.intersects": smallSets, "sets.equivalent": smallSets,
	}
}

// problem tells why a text is not what a function reads, "" if it may be.
type problem func(text string) string

func atMost(what string, bytesMax int) problem {
	return func(text string) string {
		if len(text) <= bytesMax {
			return ""
		}
		return fmt.Sprintf("%s has at most %d bytes", what, bytesMax)
	}
}

func quantityProblem(text string) string {
	if len(text) > quantityBytesMax {
		return fmt.Sprintf("a quantity has at most %d bytes", quantityBytesMax)
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(strings.TrimLeft(text[at+1:], "+-")) > exponentDigitsMax {
		return fmt.Sprintf("the exponent of a quantity has at most %d digits", exponentDigitsMax)
	}
	return ""
}

// refuseArguments makes it an error to give a function a text with a problem.
func refuseArguments(find problem) guard {
	return func(args []ref.Val) ref.Val {
		if wrong := firstProblem(find, args); wrong != "" {
			return types.NewErr("%s", wrong)
		}
		return nil
	}
}

// denyArguments makes a function false for a text with a problem.
func denyArguments(find problem) guard {
	return func(args []ref.Val) ref.Val {
		if firstProblem(find, args) != "" {
			return types.False
		}
		return nil
	}
}

func firstProblem(find problem, args []ref.Val) string {
	for _, arg := range args {
		if text, ok := arg.(types.String); ok {
			if wrong := find(string(text)); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// validateShort lets a format validate a text that is short enough.
func validateShort(args []ref.Val) ref.Val {
	if text, ok := args[len(args)-1].(types.String); ok && len(text) > formattedBytesMax {
		return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter,
			[]string{fmt.Sprintf("a string of more than %d bytes is not validated", formattedBytesMax)}))
	}
	return nil
}

// smallSets lets sets be compared that are small enough for each other.
func smallSets(args []ref.Val) ref.Val {
	if setWork(args) > setWorkMax {
		return types.NewErr("the sets are too large in combination")
	}
	return nil
}

// setWork is about the number of bytes that are read to compare each item of a
// set with each of another one.
func setWork(args []ref.Val) uint64 {
	if len(args) != 2 {
		return 0
	}
	return max(estimateDeepSize(args[0])*itemCount(args[1]), estimateDeepSize(args[1])*itemCount(args[0]))
}

func itemCount(value ref.Val) uint64 {
	if list, ok := value.(traits.Lister); ok {
		if size, ok := list.Size().(types.Int); ok {
			return uint64(max(1, size))
		}
	}
	return 1
}

// guardFunctions puts guards before functions. It must come after the libraries that
// have them.
func guardFunctions(guards map[string]guard) cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		for name, before := range guards {
			declared, ok := e.Functions()[name]
			if !ok {
				return nil, fmt.Errorf("no library has the function %s", name)
			}
			bindings, err := declared.Bindings()
			if err != nil {
				return nil, fmt.Errorf("reading the function %s: %w", name, err)
			}
			var overloads []cel.FunctionOpt
			for _, overload := range declared.OverloadDecls() {
				call := callOf(bindings, overload.ID())
				if call == nil {
					return nil, fmt.Errorf("the function %s has an unexpected form", name)
				}
				overloads = append(overloads, guardOverload(overload, before, call))
			}
			if e, err = cel.Function(name, overloads...)(e); err != nil {
				return nil, fmt.Errorf("guarding the function %s: %w", name, err)
			}
		}
		return e, nil
	}
}

// callOf returns what an overload does, nil if that is not known.
func callOf(bindings []*functions.Overload, id string) func(...ref.Val) ref.Val {
	for _, b := range bindings {
		switch {
		case b.Operator != id:
		case b.Unary != nil:
			return func(args ...ref.Val) ref.Val { return b.Unary(args[0]) }
		case b.Binary != nil:
			return func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) }
		case b.Function != nil:
			return b.Function
		}
	}
	return nil
}

// guardOverload declares an overload again, with a guard before the call.
func guardOverload(overload *decls.OverloadDecl, before guard, call func(...ref.Val) ref.Val) cel.FunctionOpt {
	bounded := func(args ...ref.Val) ref.Val {
		if instead := before(args); instead != nil {
			return instead
		}
		return call(args...)
	}
	binding := cel.FunctionBinding(bounded)
	switch len(overload.ArgTypes()) {
	case 1:
		binding = cel.UnaryBinding(func(arg ref.Val) ref.Val { return bounded(arg) })
	case 2:
		binding = cel.BinaryBinding(func(a, b ref.Val) ref.Val { return bounded(a, b) })
	}
	declare := cel.Overload
	if overload.IsMemberFunction() {
		declare = cel.MemberOverload
	}
	return declare(overload.ID(), overload.ArgTypes(), overload.ResultType(), binding)
}
