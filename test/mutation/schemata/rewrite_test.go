// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// declared is what the statements of TestEachUseIsRewritten are about; F and G are
// mutated, and the constant C.
const declared = `package p
type Inner struct { G int; H []int }
type Outer struct { F Inner; P *Inner; M map[string]int; L []Inner; Next *Outer }
type Like struct { G int; H []int }
func (i *Inner) Set(n int) { i.G = n }
func (i Inner) Get() int { return i.G }
func both() (f Inner, l []Inner) { return }
func value() Outer { return Outer{} }
const C = "C"
const Alias = C
func use(x Outer, p *Outer, any ...any) {
`

func TestEachUseIsRewritten(t *testing.T) {
	for statement, want := range map[string]string{
		"use(x, p, x.F)":                   `use(x, p, mutant.Read("read:F", x.F))`,
		"use(x, p, p.Next.F)":              `use(x, p, mutant.Read("read:F", p.Next.F))`,
		"use(x, p, &x.F)":                  `use(x, p, &(*mutant.Ref("read:F", "write:F", &x.F)))`,
		"use(x, p, &x.F.G)":                `use(x, p, &(*mutant.Ref("read:G", "write:G", &(*mutant.Ref("read:F", "write:F", &x.F)).G)))`,
		"x.F = Inner{}":                    `x.F = mutant.Write[Inner]("write:F", Inner{})`,
		"x.F, p.F = p.F, x.F":              `x.F, p.F = mutant.Write[Inner]("write:F", mutant.Read("read:F", p.F)), mutant.Write[Inner]("write:F", mutant.Read("read:F", x.F))`,
		"x.F, x.L = both()":                `(*mutant.Into("write:F", &x.F)), x.L = both()`,
		"x.F.G++":                          `(*mutant.Into("write:G", &(*mutant.Into("write:F", &x.F)).G))++`,
		"x.F.G = p.F.G":                    `(*mutant.Into("write:F", &x.F)).G = mutant.Write[int]("write:G", mutant.Read("read:G", mutant.Read("read:F", p.F).G))`,
		"x.F.H[x.F.G] = 1":                 `(*mutant.Into("write:F", &x.F)).H[mutant.Read("read:G", mutant.Read("read:F", x.F).G)] = 1`,
		"x.F.Set(1)":                       `(*mutant.Ref("read:F", "write:F", &x.F)).Set(1)`,
		"use(x, p, x.F.Get())":             `use(x, p, mutant.Read("read:F", x.F).Get())`,
		"use(x, p, value().F)":             `use(x, p, mutant.Read("read:F", value().F))`,
		"use(x, p, p.P.G)":                 `use(x, p, mutant.Read("read:G", mutant.Read("read:P", p.P).G))`,
		"use(x, p, &p.P.G)":                `use(x, p, &(*mutant.Ref("read:G", "write:G", &mutant.Read("read:P", p.P).G)))`,
		"value().M[\"a\"] = 1":             `mutant.Read("read:M", value().M)["a"] = 1`,
		"use(x, p, &x.L[0].G)":             `use(x, p, &(*mutant.Ref("read:G", "write:G", &x.L[0].G)))`,
		"for range x.F.H {}":               `for range mutant.Read("read:F", x.F).H {}`,
		"x = Outer{F: p.F}":                `x = Outer{F: mutant.Write[Inner]("write:F", mutant.Read("read:F", p.F))}`,
		"x.L = []Inner{{G: 1}}":            `x.L = []Inner{{G: mutant.Write[int]("write:G", 1)}}`,
		"x.P = (*Inner)(nil)":              `x.P = mutant.Write[*Inner]("write:P", (*Inner)(nil))`,
		"use(x, p, Inner(Like{}))":         `use(x, p, mutant.Converted("write:G", func(v *Inner) *int { return &v.G }, Inner(Like{})))`,
		"use(x, p, C)":                     `use(x, p, mutant.Reason[string]("reason:C", C))`,
		"use(x, p, Alias)":                 `use(x, p, mutant.Reason[string]("reason:C", Alias))`,
		"const own = C":                    `const own = C`,
		"switch x.M[\"\"] { case x.F.G: }": `switch mutant.Read("read:M", x.M)[""] { case mutant.Read("read:G", mutant.Read("read:F", x.F).G): }`,
	} {
		t.Run(statement, func(t *testing.T) {
			source := declared + "\t" + statement + "\n}\n"
			pkg, file := check(t, source)
			all := targets{fields: map[*types.Var]string{}, reasons: map[*types.Const]string{}}
			for _, name := range []string{"F", "P", "M"} {
				all.fields[fieldNamed(pkg, "Outer", name)] = name
			}
			all.fields[fieldNamed(pkg, "Inner", "G")] = "G"
			all.reasons[pkg.Types.Scope().Lookup("C").(*types.Const)] = "C" //nolint:forcetypeassert // it is one
			all.addAliases(pkg.TypesInfo, file)
			mutated, _ := rewrite(pkg, "p.go", file, []byte(source), all)
			lines := strings.Split(string(mutated), "\n")
			if got := strings.TrimSpace(lines[strings.Count(declared, "\n")]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if first := "package p; import mutant " + `"` + mutantPackage + `"`; lines[0] != first {
				t.Errorf("the first line is %s, want %s", lines[0], first)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), "p.go", mutated, 0); err != nil {
				t.Errorf("it is no Go any more: %v", err)
			}
		})
	}
}

func TestCodeThatRefusesHasMutantsOfItsOwn(t *testing.T) {
	source := declared + "\tuse(x, p, x.F)\n}\n"
	for path, want := range map[string]string{
		"internal/webhook/work/validate.go": "refuse:F",
		"internal/webhook/work/mutate.go":   "read:F",
		"internal/hub/work/work.go":         "read:F",
	} {
		pkg, file := check(t, source)
		all := targets{fields: map[*types.Var]string{fieldNamed(pkg, "Outer", "F"): "F"}}
		if _, made := rewrite(pkg, path, file, []byte(source), all); !made[want] {
			t.Errorf("%s has the mutants %v, want %s", path, made, want)
		}
	}
}

func TestTheSameSourceIsRewrittenTheSameWay(t *testing.T) {
	source := declared + "\tuse(x, p, x.F)\n}\n"
	rewritten := func() string {
		pkg, file := check(t, source)
		text := newText([]byte(source), pkg.Fset.File(file.FileStart), pkg.Types)
		for _, path := range []string{"e/e", "a/a", "d/d", "b/b", "c/c"} {
			text.typeName(types.NewNamed(types.NewTypeName(token.NoPos, types.NewPackage(path, path[2:]), "T", nil), types.Typ[types.Int], nil))
		}
		return string(text.withImports(file))
	}
	first := rewritten()
	for range 50 {
		if again := rewritten(); again != first {
			t.Fatalf("the sources of test programs change from run to run, so that no result is kept:\n%s\n%s", first, again)
		}
	}
}

// check type-checks a file.
func check(t *testing.T, source string) (*packages.Package, *ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	pkg, err := (&types.Config{Error: func(error) {}}).Check("p", fset, []*ast.File{file}, info)
	if err != nil && !strings.Contains(err.Error(), "declared and not used") {
		t.Fatal(err)
	}
	return &packages.Package{Fset: fset, Types: pkg, TypesInfo: info}, file
}

func fieldNamed(pkg *packages.Package, structure, field string) *types.Var {
	of, _ := pkg.Types.Scope().Lookup(structure).Type().Underlying().(*types.Struct)
	for f := range of.Fields() {
		if f.Name() == field {
			return f
		}
	}
	return nil
}
