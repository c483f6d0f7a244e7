// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package columns

import "testing"

func TestColumnsAreAsWideAsTheirCharacters(t *testing.T) {
	want := "NAME     READY\n├─ one   yes\ntwo\n"
	if got := Text([][]string{{"NAME", "READY"}, {"├─ one", "yes"}, {"two", ""}}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
