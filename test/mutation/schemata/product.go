// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"path/filepath"
	"reflect"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Module is how the paths of our packages begin.
const Module = "github.com/capstan-io/capstan/"

// product is the code that users get, as the compiler sees it.
type product struct {
	root     string
	packages []*packages.Package
}

// loadProduct type-checks the code of the repository at root, without tests.
func loadProduct(root string) (*product, error) {
	config := &packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
	}
	loaded, err := packages.Load(config, "./apis/...", "./config/...", "./internal/...", "./operators/...", "./cmd/...")
	if err != nil {
		return nil, fmt.Errorf("loading the product: %w", err)
	}
	p := &product{root: root}
	for _, pkg := range loaded {
		for _, broken := range pkg.Errors {
			err = errors.Join(err, broken)
		}
		if !strings.HasPrefix(pkg.PkgPath, Module+"internal/testing") {
			p.packages = append(p.packages, pkg)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("type-checking the product: %w", err)
	}
	return p, nil
}

// inFolder returns the package of a folder.
func (p *product) inFolder(folder string) (*packages.Package, error) {
	for _, pkg := range p.packages {
		if pkg.PkgPath == Module+folder {
			return pkg, nil
		}
	}
	return nil, fmt.Errorf("there is no package in %s", folder)
}

// field finds the field of a kind at a path such as spec.rules[].name, by the names
// that fields have in JSON.
func (p *product) field(folder, kind, path string) (*types.Var, error) {
	pkg, err := p.inFolder(folder)
	if err != nil {
		return nil, err
	}
	root := pkg.Types.Scope().Lookup(kind)
	if root == nil {
		return nil, fmt.Errorf("%s has no type %s", folder, kind)
	}
	var found *types.Var
	at := root.Type()
	for name := range strings.SplitSeq(path, ".") {
		found = fieldOf(at, strings.TrimSuffix(name, "[]"))
		if found == nil {
			return nil, fmt.Errorf("%s of %s: %s has no field that is %s in JSON", path, kind, at, name)
		}
		at = found.Type()
	}
	return found, nil
}

// fieldOf returns the field of a struct, or of the items of a list of structs, which
// may be a field of a struct that is embedded.
func fieldOf(of types.Type, name string) *types.Var {
	structure, ok := structOf(of)
	if !ok {
		return nil
	}
	for i := range structure.NumFields() {
		tag, options, _ := strings.Cut(reflect.StructTag(structure.Tag(i)).Get("json"), ",")
		switch field := structure.Field(i); {
		case tag == name && tag != "":
			return field
		case tag == "" && (field.Embedded() || options == "inline"):
			if inner := fieldOf(field.Type(), name); inner != nil {
				return inner
			}
		}
	}
	return nil
}

func structOf(of types.Type) (*types.Struct, bool) {
	for {
		switch t := of.Underlying().(type) {
		case *types.Struct:
			return t, true
		case *types.Pointer:
			of = t.Elem()
		case *types.Slice:
			of = t.Elem()
		case *types.Map:
			of = t.Elem()
		default:
			return nil, false
		}
	}
}

// reasons returns the constants of a folder whose names begin with a prefix, by
// their values.
func (p *product) reasons(folder, prefix string) (map[string][]*types.Const, error) {
	pkg, err := p.inFolder(folder)
	if err != nil {
		return nil, err
	}
	found := map[string][]*types.Const{}
	for _, name := range pkg.Types.Scope().Names() {
		reason, ok := pkg.Types.Scope().Lookup(name).(*types.Const)
		if ok && strings.HasPrefix(name, prefix) && reason.Val().Kind() == constant.String {
			value := constant.StringVal(reason.Val())
			found[value] = append(found[value], reason)
		}
	}
	return found, nil
}

// sources calls do with each file of the product that somebody wrote, and its path in
// the repository.
func (p *product) sources(do func(pkg *packages.Package, path string, file *ast.File) error) error {
	for _, pkg := range p.packages {
		for i, file := range pkg.Syntax {
			path, err := filepath.Rel(p.root, pkg.CompiledGoFiles[i])
			if err != nil {
				return fmt.Errorf("the file %s is not in %s: %w", pkg.CompiledGoFiles[i], p.root, err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			if err := do(pkg, path, file); err != nil {
				return err
			}
		}
	}
	return nil
}
