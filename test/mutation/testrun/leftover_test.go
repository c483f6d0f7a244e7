// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"os"
	"os/exec"
	"testing"
)

func TestWhatATestLeftRunningIsEnded(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found in /proc, and this system has none")
	}
	start := func(value string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), "sleep", "600")
		command.Env = append(os.Environ(), "CAPSTAN_TEST_LEFTOVER="+value)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		return command
	}
	folder := t.TempDir()
	ours, other := start(folder), start(folder+"-of-another")
	endLeftovers("CAPSTAN_TEST_LEFTOVER=" + folder)
	if err := ours.Wait(); err == nil {
		t.Error("the process ended by itself, want it to be ended")
	}
	if err := other.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("the process of another test does not run any more: %v", err)
	}
	_ = other.Wait() // it was interrupted
}
