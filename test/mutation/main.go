// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Mutation checks the tables of docs/reference that name the tests which prove each
// field and each reason: it makes the product blind to the field, or silent about the
// reason, and one of the tests has to fail. docs/TESTING.md explains what it prints.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/schemata"
	"github.com/capstan-io/capstan/test/mutation/testrun"
)

// options are what the command line says.
type options struct {
	base     string
	most     int
	rows     *regexp.Regexp
	parallel int
}

func main() {
	var o options
	o.rows = regexp.MustCompile("")
	flag.Func("rows", "check only the rows whose kind and field or reason match `pattern`, a regular expression", func(text string) (err error) {
		o.rows, err = regexp.Compile(text)
		return err //nolint:wrapcheck // flag says of which argument
	})
	flag.StringVar(&o.base, "base", "", "check only the rows that differ from a `commit` in their text, code or tests")
	flag.IntVar(&o.most, "most", 0, "of those rows check at most `n`, spread evenly over them; 0 is all")
	flag.IntVar(&o.parallel, "parallel", 2, "check `n` rows at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run checks rows, and reports whether all is as it should be.
func run(ctx context.Context, o options) (bool, error) {
	root, err := os.Getwd()
	if err != nil {
		return false, fmt.Errorf("finding the repository: %w", err)
	}
	var since *change
	if o.base != "" { // a commit that is missing shows at once
		if since, err = changeSince(ctx, root, o.base); err != nil {
			return false, err
		}
	}
	all, err := allRows(root)
	if err != nil {
		return false, err
	}
	w, err := newWorkshop(root, all)
	if err != nil {
		return false, err
	}
	rows := slices.DeleteFunc(slices.Clone(all), func(row proof.Row) bool { return !o.rows.MatchString(row.Name()) })
	if since != nil {
		if rows, err = since.touched(ctx, rows, w.mutants.Files); err != nil {
			return false, err
		}
	}
	if chosen := sampleRows(rows, o.most); len(chosen) < len(rows) {
		fmt.Fprintf(os.Stdout, "checking %d of %d rows\n", len(chosen), len(rows))
		rows = chosen
	}
	report := &report{out: os.Stdout, total: len(rows)}
	if err := w.check(ctx, rows, o.parallel, report); err != nil {
		return false, err
	}
	return report.end(exceptions(), len(rows) == len(all)), nil
}

func allRows(root string) ([]proof.Row, error) {
	var all []proof.Row
	for _, table := range proof.Tables() {
		rows, err := proof.Read(root, table)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// workshop has what the check of rows needs.
type workshop struct {
	root    string
	overlay *schemata.Overlay
	mutants *schemata.Mutants
}

// folderOf returns a folder of the check's own, below bin.
func folderOf(root, name string) (string, error) {
	folder := filepath.Join(root, "bin", "mutation", name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", name, err)
	}
	return folder, nil
}

// newWorkshop makes the mutants of all rows.
func newWorkshop(root string, all []proof.Row) (*workshop, error) {
	folder, err := folderOf(root, "_sources") // Go takes a folder of that name for none of the module's
	if err != nil {
		return nil, err
	}
	made, overlay, err := schemata.Make(root, folder, all, testFolders(all))
	if err != nil {
		return nil, fmt.Errorf("making mutants: %w", err)
	}
	return &workshop{root: root, overlay: overlay, mutants: made}, nil
}

func testFolders(rows []proof.Row) []string {
	var folders []string
	for _, row := range rows {
		for _, test := range row.Tests() {
			folders = append(folders, test.Folder)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// check checks rows, a few at a time, but for those whose results are kept.
func (w *workshop) check(ctx context.Context, rows []proof.Row, parallel int, report *report) error {
	programs, err := folderOf(w.root, "programs")
	if err != nil {
		return err
	}
	results, err := folderOf(w.root, "results")
	if err != nil {
		return err
	}
	inputs, err := inputsOf(ctx, w.overlay, testFolders(rows))
	if err != nil {
		return err
	}
	kept := &store{folder: results, inputs: inputs}
	checker := newChecker(testrun.NewRunner(w.overlay, programs), w.mutants, inputs)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var left []proof.Row
	for _, row := range rows {
		if found, ok := kept.load(kept.key(row, w.mutants.Choose(row))); ok {
			report.add(found)
			continue
		}
		left = append(left, row)
	}
	for _, row := range rowsQuickFirst(left, inputs) {
		group.Go(func() error {
			found, err := checker.check(ctx, row)
			if err != nil {
				return err
			}
			report.add(found)
			if found.Outcome == failing {
				return nil // the next run looks again
			}
			return kept.save(kept.key(row, w.mutants.Choose(row)), found)
		})
	}
	return group.Wait()
}

// rowsQuickFirst returns rows in the order of how many of their tests start API servers:
// those of none, those of some, and those of which all do.
func rowsQuickFirst(rows []proof.Row, inputs map[string]input) []proof.Row {
	slow := func(test proof.Test) bool { return inputs[test.Folder].servers }
	rank := func(row proof.Row) int {
		tests := row.Tests()
		switch {
		case !slices.ContainsFunc(tests, slow):
			return 0
		case len(slices.DeleteFunc(tests, slow)) > 0:
			return 1
		default:
			return 2
		}
	}
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b proof.Row) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}
