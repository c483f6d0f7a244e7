// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/mutant"
)

// Values returns what is tried in place of a row's field with a mutant of it, one after the other, until
// a test notices: nothing; then another value, as nothing may be what counts anyway.
func (m *Mutants) Values(row proof.Row, name string) []string {
	switch {
	case strings.HasPrefix(name, mutant.Schema):
		return []string{mutant.Zero, mutant.Other}
	case !strings.HasPrefix(name, reason):
		return append([]string{mutant.Zero}, otherValues(m.of[row.Name()].field)...)
	default:
		return []string{mutant.Zero}
	}
}

// otherValues returns what else a field of a type may have: another value of an
// enumeration, or one that is made of what is there.
func otherValues(of types.Type) []string {
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem()
		if _, ok := of.Underlying().(*types.Struct); ok {
			return []string{mutant.Other}
		}
	}
	if enumeration := constantsOf(of); len(enumeration) > 0 {
		return enumeration
	}
	switch of.Underlying().(type) {
	case *types.Basic, *types.Slice:
		return []string{mutant.Other}
	}
	return nil
}

// constantsOf returns the texts that the package of a type gives names to, as it does
// for the values of an enumeration.
func constantsOf(of types.Type) []string {
	named, ok := of.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	var texts []string
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		value, ok := scope.Lookup(name).(*types.Const)
		if ok && types.Identical(value.Type(), named) && value.Val().Kind() == constant.String {
			texts = append(texts, mutant.Text+constant.StringVal(value.Val()))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
