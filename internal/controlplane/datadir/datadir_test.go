// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const snapshot = "what etcd had"

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func TestReceiveTakesWhatWasSentAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"all":                     {snapshot, ""},
		"a connection that stays": {snapshot + "more", ""},
		"cut off":                 {snapshot[:5], "has 5 bytes"},
		"altered":                 {strings.ToUpper(snapshot), "the SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, Restored+"/left", "half")
			write(t, dir, Snapshot, "half")
			err := ReceiveSnapshot(strings.NewReader(c.sent), dir, int64(len(snapshot)), sumOf(snapshot))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if pathExists(filepath.Join(dir, Restored)) {
				t.Error("what an earlier restore left is still there")
			}
			if err == nil {
				fileHas(t, dir, Snapshot, snapshot)
			}
		})
	}
}

func TestPutKeepsWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	restore := func(text string, again bool) {
		t.Helper()
		write(t, dir, Restored+"/db", text)
		write(t, dir, Snapshot, snapshot)
		expect.NoError(t, PutRestoredData(dir, again))
		fileHas(t, dir, Data+"/db", text)
		if pathExists(filepath.Join(dir, Restored)) || pathExists(filepath.Join(dir, Snapshot)) {
			t.Error("something is left behind")
		}
	}
	restore("of an empty volume", false)
	write(t, dir, Data+"/db", "old")
	restore("first", false)
	fileHas(t, dir, Before+"/db", "old")
	restore("first, again", true)
	fileHas(t, dir, Before+"/db", "old")
	restore("second", false)
	fileHas(t, dir, Before+"/db", "first, again")
	if err := PutRestoredData(dir, false); err == nil {
		t.Error("data are replaced by nothing")
	}
	fileHas(t, dir, Data+"/db", "second")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func fileHas(t *testing.T, dir, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(got) != want {
		t.Errorf("%s has %q (error %v), want %q", name, got, err, want)
	}
}
