// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package golden_test

import (
	"path/filepath"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/golden"
)

// watched is a test that may fail.
type watched struct {
	testing.TB
	failed bool
}

func (w *watched) Errorf(string, ...any) { w.failed = true }

func TestADifferenceIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "file")
	text := golden.YAMLDocuments(t, []map[string]string{{"a": "b"}, {"c": "d"}})
	if string(text) != "---\na: b\n---\nc: d\n" {
		t.Errorf("the documents are %q", text)
	}
	golden.CompareFile(t, file, "it is not there", text, true)
	golden.CompareFile(t, file, "it is another", text, false)
	w := &watched{TB: t}
	golden.CompareFile(w, file, "it is another", append(text, '\n'), false)
	if !w.failed {
		t.Error("a difference is not told")
	}
}
