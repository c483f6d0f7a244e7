// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schemata makes the mutants of the product: copies of its sources in which
// every use of a field or reason with a row asks package mutant whether the mutant of the
// row is on.
package schemata

import (
	"path/filepath"

	"github.com/capstan-io/capstan/test/internal/proof"
)

// Make makes the mutants of the rows in the code of the repository at root, in a folder,
// and shortens the patience of the tests in some folders of the repository.
func Make(root, folder string, rows []proof.Row, testFolders []string) (*Mutants, *Overlay, error) {
	p, err := loadProduct(root)
	if err != nil {
		return nil, nil, err
	}
	o := &Overlay{Root: root, folder: folder, replaced: map[string]string{}}
	m, err := newMutants(p, rows, o)
	if err != nil {
		return nil, nil, err
	}
	for _, folder := range testFolders {
		files, err := impatient(filepath.Join(root, folder))
		if err != nil {
			return nil, nil, err
		}
		for path, content := range files {
			if err := o.add(path, content); err != nil {
				return nil, nil, err
			}
		}
	}
	return m, o, o.write()
}
