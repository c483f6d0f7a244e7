// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestALimitOfClustersBelowZeroIsRefused(t *testing.T) {
	for program, flag := range map[string]string{"registration-webhook": "--max-unaccepted-clusters", "registration-controller": "--max-automatic-clusters"} {
		command := newRootCommand("capstan-manager")
		command.SetArgs([]string{program, flag + "=-1"})
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), flag+": -1 is no number of clusters; 0 is no limit") {
			t.Errorf("%s: got %v, want a refusal of the flag", program, err)
		}
	}
}
