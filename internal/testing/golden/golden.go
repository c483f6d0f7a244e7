// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a program writes with files in testdata.
package golden

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// CompareFile expects a file to have a text. With update, it writes the text into the file. The
// reason says what is wrong if they differ.
func CompareFile(t testing.TB, file, reason string, got []byte, update bool) {
	t.Helper()
	if update {
		expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		expect.NoError(t, os.WriteFile(file, got, 0o600))
		return
	}
	want, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err != nil {
		t.Fatalf("%v; run the tests of this package with -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s; if the change is meant, run the tests of this package with -update (-want +got):\n%s", reason, diff)
	}
}

// YAMLDocuments returns objects as documents of YAML, one after the other.
func YAMLDocuments[T any](t testing.TB, objects []T) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, object := range objects {
		encoded, err := yaml.Marshal(object)
		expect.NoError(t, err)
		text.WriteString("---\n")
		text.Write(encoded)
	}
	return text.Bytes()
}
