// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"slices"
	"testing"
)

func TestProcessesAreListedWithTheirArguments(t *testing.T) {
	processes, err := Processes()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(processes, func(p Process) bool { return p.ID == os.Getpid() })
	if i < 0 {
		t.Fatal("this process is not listed")
	}
	if got := processes[i].Args; !slices.Equal(got, os.Args) {
		t.Errorf("arguments are %q, want %q", got, os.Args)
	}
}

func TestAProcessThatHasEndedHasNoArguments(t *testing.T) {
	const beyondAll = 1 << 30 // More than the kernel has numbers.
	if got := arguments(beyondAll); got != nil {
		t.Errorf("got %q, want none", got)
	}
}
