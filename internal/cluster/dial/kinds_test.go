// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestEveryKindIsLookedAt has every package of our kinds among those whose quantities are
// known.
func TestEveryKindIsLookedAt(t *testing.T) {
	code, err := os.ReadFile("quantities.go")
	expect.NoError(t, err)
	found := 0
	err = filepath.WalkDir("../../../apis", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "groupversion.go" {
			return err
		}
		found++
		name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../../")
		_, imported, _ := strings.Cut(string(code), "/capstan/"+name+"\"\n") // unused it would not compile
		if imported == "" {
			t.Errorf("the kinds of %s are not known", name)
		}
		return nil
	})
	if err != nil || found < 15 {
		t.Errorf("found %d packages of kinds: %v", found, err)
	}
}
