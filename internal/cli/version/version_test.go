// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import "testing"

func TestCompare(t *testing.T) {
	t.Parallel()
	for hub, want := range map[string]comparison{
		"1.2.3": equal, "1.2.3+dirty": equal, "1.2.2": hubOlder, "1.2.3-rc.1": hubOlder, "1.10.0": hubNewer, "latest": different, "": different,
	} {
		if got := compareReleases("1.2.3", hub); got != want {
			t.Errorf("hub %q: %s, want %s", hub, got, want)
		}
	}
	if got := compareReleases("latest", "1.2.3"); got != different {
		t.Errorf("a client of no release: %s", got)
	}
}
