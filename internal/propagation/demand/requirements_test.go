// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"testing"

	"github.com/capstan-io/capstan/internal/interpret"
)

func TestTheNamespaceOfRequirements(t *testing.T) {
	for name, c := range map[string]struct {
		needs *interpret.Requirements
		want  string
	}{
		"nothing is needed":        {nil, "shop"},
		"of the object":            {&interpret.Requirements{PriorityClassName: "high"}, "shop"},
		"of an interpreter's word": {&interpret.Requirements{Namespace: "jobs"}, "jobs"},
	} {
		if got := replicaNeeds(c.needs, "shop").Namespace; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
