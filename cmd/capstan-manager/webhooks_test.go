// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestALimitOfClustersBelowZeroIsRefused(t *testing.T) {
	command := newRootCommand("capstan-manager")
	command.SetArgs([]string{"registration-webhook", "--max-unaccepted-clusters=-1"})
	if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-unaccepted-clusters: -1 is no number of clusters; 0 is no limit") {
		t.Errorf("got %v, want a refusal of the flag", err)
	}
}
