// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// mutantPackage is what mutated code imports.
const mutantPackage = Module + "test/mutation/mutant"

// text is the source of a file, and what is put around its expressions. Lines keep
// their numbers.
type text struct {
	source  []byte
	file    *token.File
	pkg     *types.Package
	inserts []insert
	// imports are the names of the packages that the text has to import.
	imports map[string]string
}

// insert is a piece of text that goes to an offset of the source.
type insert struct {
	at    int
	piece string
	// closes is of what stands after an expression, which is of length span.
	closes bool
	span   int
	order  int
}

func newText(source []byte, file *token.File, pkg *types.Package) *text {
	return &text{source: source, file: file, pkg: pkg, imports: map[string]string{}}
}

// wrap puts something before and after an expression.
func (t *text) wrap(node ast.Node, before, after string) {
	start, end, order := t.file.Offset(node.Pos()), t.file.Offset(node.End()), len(t.inserts)
	t.inserts = append(t.inserts,
		insert{at: start, piece: before, span: end - start, order: order},
		insert{at: end, piece: after, span: end - start, order: -order, closes: true})
}

// typeName returns how the file may write a type; what it needs for that is imported.
func (t *text) typeName(of types.Type) string {
	return types.TypeString(types.Default(of), func(pkg *types.Package) string {
		if pkg == t.pkg {
			return ""
		}
		if _, ok := t.imports[pkg.Path()]; !ok {
			t.imports[pkg.Path()] = fmt.Sprintf("mutated%d", len(t.imports))
		}
		return t.imports[pkg.Path()]
	})
}

// withImports returns the text with all that was put into it.
func (t *text) withImports(file *ast.File) []byte {
	imports := fmt.Sprintf("; import mutant %q", mutantPackage)
	for _, path := range slices.Sorted(maps.Keys(t.imports)) { // the same text each time, so that results can be kept
		imports += fmt.Sprintf("; import %s %q", t.imports[path], path)
	}
	t.inserts = append(t.inserts, insert{at: t.file.Offset(file.Name.End()), piece: imports})
	slices.SortStableFunc(t.inserts, func(a, b insert) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.nests(b), cmp.Compare(a.order, b.order))
	})
	var out bytes.Buffer
	written := 0
	for _, i := range t.inserts {
		out.Write(t.source[written:i.at])
		out.WriteString(i.piece)
		written = i.at
	}
	out.Write(t.source[written:])
	return out.Bytes()
}

// nests compares two inserts of one offset: what closes an expression stands before
// what opens the next, longer expressions open before the shorter ones in them, and
// close after them.
func (i insert) nests(other insert) int {
	switch {
	case i.closes && !other.closes:
		return -1
	case !i.closes && other.closes:
		return 1
	case i.closes:
		return cmp.Compare(i.span, other.span)
	default:
		return cmp.Compare(other.span, i.span)
	}
}
