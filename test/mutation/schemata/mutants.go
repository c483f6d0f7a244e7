// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/mutant"
)

// Mutants are those of all rows, in copies of the product's sources.
type Mutants struct {
	// of has what a row is about, by the row's name.
	of map[string]target
	// places are the files with a mutant, by its name.
	places map[string][]string
}

// target is what a row is about: its name, which it may share with other rows, and
// the type of its field, which a reason has not.
type target struct {
	name  string
	field types.Type
	// file is where it is declared.
	file string
}

// newMutants puts the mutants of all rows into copies of the product's sources.
func newMutants(p *product, rows []proof.Row, to *Overlay) (*Mutants, error) {
	m := &Mutants{of: map[string]target{}, places: map[string][]string{}}
	all := targets{fields: map[*types.Var]string{}, reasons: map[*types.Const]string{}}
	for _, row := range rows {
		if err := m.resolve(p, row, all); err != nil {
			return nil, fmt.Errorf("finding what the row of %s is about: %w", row.Name(), err)
		}
	}
	for _, pkg := range p.packages {
		for _, file := range pkg.Syntax {
			all.addAliases(pkg.TypesInfo, file)
		}
	}
	return m, p.sources(func(pkg *packages.Package, path string, file *ast.File) error {
		source, err := os.ReadFile(filepath.Join(p.root, path))
		if err != nil {
			return fmt.Errorf("reading what is to be mutated: %w", err)
		}
		mutated, made := rewrite(pkg, path, file, source, all)
		if len(made) == 0 {
			return nil
		}
		for name := range made {
			m.places[name] = append(m.places[name], path)
		}
		return to.add(filepath.Join(p.root, path), mutated)
	})
}

// resolve finds what a row is about, and adds it to the targets.
func (m *Mutants) resolve(p *product, row proof.Row, all targets) error {
	if row.OfReason() {
		return m.resolveReason(p, row, all)
	}
	field, err := p.field(row.Table.Folder, row.Table.Kind, row.What)
	if err != nil {
		return err
	}
	if _, known := all.fields[field]; !known {
		all.fields[field] = row.Name()
	}
	m.of[row.Name()] = target{name: all.fields[field], field: field.Type(), file: p.fileOf(field)}
	return nil
}

func (m *Mutants) resolveReason(p *product, row proof.Row, all targets) error {
	reasons, err := p.reasons(row.Table.Folder, row.Table.Reasons)
	if err != nil {
		return err
	}
	constants := reasons[row.What]
	if row.Table.Agents != "" {
		reported, err := p.reasons("apis/fleet/v1alpha1", row.Table.Agents)
		if err != nil {
			return err
		}
		constants = append(constants, reported[row.What]...)
	}
	if len(constants) == 0 {
		return fmt.Errorf("%s has no constant of value %s whose name begins with %s", row.Table.Folder, row.What, row.Table.Reasons)
	}
	for _, constant := range constants {
		all.reasons[constant] = row.Name()
		m.of[row.Name()] = target{name: row.Name(), file: p.fileOf(constant)}
	}
	return nil
}

// Choose returns the mutants of a row, of which its tests have to notice one. What the
// product reads, they have to show the effect of; what it only refuses, that it refuses
// it; and what it writes, that it is written. Of a field that is only kept as it is
// written, the definition is what there is to prove.
func (m *Mutants) Choose(row proof.Row) []string {
	of := m.of[row.Name()].name
	effects := [][]string{{reading}, {writing}, {refusing, mutant.Schema}}
	switch {
	case row.OfReason():
		effects = [][]string{{reason}}
	case strings.HasPrefix(row.What, "status."):
		effects = [][]string{{writing}}
	case row.OnlyWritten():
		effects = effects[1:]
	case row.OnlyKept():
		effects = effects[2:]
	}
	for _, ways := range effects {
		var names []string
		for _, way := range ways {
			switch {
			case len(m.places[way+of]) > 0:
				names = append(names, way+of)
			case way == mutant.Schema && row.Table.Defined:
				names = append(names, way+row.Name())
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}

// IsCode reports whether a mutant is one of the code, and not of a definition.
func IsCode(name string) bool { return !strings.HasPrefix(name, mutant.Schema) }

// OfRefusal reports whether a mutant is noticed by who sees what is refused.
func OfRefusal(name string) bool { return strings.HasPrefix(name, refusing) || !IsCode(name) }

// Files returns the files that a row's mutant is about.
func (m *Mutants) Files(row proof.Row) []string {
	files := []string{m.of[row.Name()].file}
	for _, name := range m.Choose(row) {
		if !IsCode(name) {
			files = append(files, definitionsFolder)
		}
		files = append(files, m.places[name]...)
	}
	return files
}

// fileOf returns the file that declares something, in the repository; nothing for
// what others declare.
func (p *product) fileOf(object types.Object) string {
	for _, pkg := range p.packages {
		if pkg.Types == object.Pkg() {
			path, err := filepath.Rel(p.root, pkg.Fset.Position(object.Pos()).Filename)
			if err == nil {
				return path
			}
		}
	}
	return ""
}
