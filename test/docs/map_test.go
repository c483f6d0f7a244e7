// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapOfPages is the page from which a reader finds all others.
const mapOfPages = root + "/docs/README.md"

// TestTheMapHasEveryPage follows the links of the map, and those of the indexes that
// it names: the README.md of a folder.
func TestTheMapHasEveryPage(t *testing.T) {
	all := map[string]document{}
	for _, p := range pages(t) {
		all[filepath.Clean(p.path)] = p
	}
	shown := map[string]bool{filepath.Clean(mapOfPages): true}
	for _, page := range all[filepath.Clean(mapOfPages)].linked() {
		shown[page] = true
		if filepath.Base(page) != "README.md" {
			continue
		}
		for _, next := range all[page].linked() {
			shown[next] = true
		}
	}
	looked := 0
	for _, page := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(page, filepath.Clean(root+"/docs")+"/") {
			continue
		}
		looked++
		if !shown[page] {
			t.Errorf("%s: neither %s nor an index that it links to has a link to it", page, mapOfPages)
		}
	}
	atLeast(t, 80, looked)
}

// linked returns the pages to which a page has links.
func (p document) linked() []string {
	var linked []string
	for _, target := range p.found(regexp.MustCompile(`\]\(([^)#:\s]+\.md)[#)]`)) {
		linked = append(linked, filepath.Join(filepath.Dir(p.path), target))
	}
	return linked
}
