// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"strings"
	"testing"
)

func TestWrongKeysAreNamed(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"retention":                "",
		"retentions":               `Invalid value: "retentions": it is none of the keys that count, which are retention, replicaResource, componentResource, replicaRevision, statusReflection, statusAggregation, healthInterpretation, dependencyInterpretation; do you mean retention?`,
		"HealthInterpretation":     "do you mean healthInterpretation?",
		"replicaResources":         "do you mean replicaResource?",
		"statusAggregated":         "do you mean statusAggregation?",
		"interpretHealth":          `"interpretHealth": it is none`,
		"":                         `"": it is none`,
		"a\nb":                     `"a\nb": it is none`,
		strings.Repeat("ä", 2<<20): `"` + strings.Repeat("ä", 64) + `": it is none`,
	} {
		wrong := CheckKeys([]string{key})
		switch {
		case want == "" && len(wrong) > 0:
			t.Errorf("%q is refused: %v", key, wrong)
		case want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), want)):
			t.Errorf("%.100q: got %.500v, want %s", key, wrong, want)
		}
		if hinted := len(wrong) > 0 && strings.Contains(wrong[0].Error(), "do you mean"); hinted != strings.Contains(want, "do you mean") && want != "" {
			t.Errorf("%.100q: got %.500v", key, wrong)
		}
	}
}
