// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package footprint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyUnchangedMappingsOfTheProgramAreReleased(t *testing.T) {
	smaps := `00400000-00500000 r-xp 00000000 fe:01 1 /bin/agent
Rss:                 900 kB
Anonymous:             0 kB
00500000-00600000 r--p 00100000 fe:01 1 /bin/agent
Anonymous:             8 kB
00600000-00700000 rw-p 00200000 fe:01 1 /bin/agent
Anonymous:             0 kB
00700000-00800000 r--p 00000000 fe:01 2 /lib/other
Anonymous:             0 kB
00800000-00900000 rw-p 00000000 00:00 0
Anonymous:             0 kB
`
	got := unchangedMappings([]byte(smaps), "/bin/agent")
	if diff := cmp.Diff([]mapping{{start: 0x400000, end: 0x500000}}, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
	if err := releaseStartup(); err != nil {
		t.Errorf("releasing for real: %v", err)
	}
}
