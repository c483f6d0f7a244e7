// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"
)

func TestPullSecretsAreJoined(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, before, there, want string
		foreign                     bool
	}{
		"as it was":                       {wanted: "a b", before: "a b", there: "a b", want: "a b"},
		"new":                             {wanted: "a", want: "a"},
		"the cluster's stay in order":     {wanted: "a", before: "a", there: "x a y", want: "x a y", foreign: true},
		"what the manifest loses goes":    {wanted: "b", before: "a", there: "a x", want: "x b", foreign: true},
		"what the manifest never had":     {there: "x", want: "x", foreign: true},
		"all goes with the manifest":      {before: "a", there: "a"},
		"what somebody took away is back": {wanted: "a", before: "a", there: "x", want: "x a", foreign: true},
		"what both have is both's":        {wanted: "a x", before: "a", there: "a x", want: "a x"},
		"one twice":                       {wanted: "a a", before: "a", there: "x x", want: "x a", foreign: true},
	} {
		joined, foreign := joinPullSecrets(strings.Fields(tc.wanted), strings.Fields(tc.before), strings.Fields(tc.there))
		if got := strings.Join(joined, " "); got != tc.want || foreign != tc.foreign {
			t.Errorf("%s: got %q and %t, want %q and %t", name, got, foreign, tc.want, tc.foreign)
		}
	}
}
