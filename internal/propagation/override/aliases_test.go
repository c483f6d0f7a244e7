// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// aliased is a YAML document with a text of so many bytes, and so many aliases of it.
func aliased(length, aliases int) string {
	return "text: &text " + strings.Repeat("x", length) + "\nsame: [" + strings.Repeat("*text,", aliases) + "]\n"
}

// nested is one in which each of so many lists has ten times the one before.
func nested(lists int) string {
	text := "l0: &l0 [x]\n"
	for n := 1; n < lists; n++ {
		before := fmt.Sprintf("*l%d,", n-1)
		text += fmt.Sprintf("l%d: &l%d [%s]\n", n, n, strings.Repeat(before, 10))
	}
	return text
}

func TestAliasesThatBecomeTooLongAreRefused(t *testing.T) {
	change := []policyv1alpha1.JSONPatchOperation{{SubPath: "/added", Operator: "add", Value: text("1")}}
	for name, document := range map[string]string{
		"a long text, many times":    aliased(20_000, 5_000),
		"nearly all that etcd takes": aliased(500_000, 60_000),
		"lists of lists":             nested(12),
		"merged maps":                "a: &a {k: " + strings.Repeat("x", 20_000) + "}\nb:\n" + strings.Repeat("- <<: *a\n", 5_000),
		"a long key":                 "a: &a\n  ? " + strings.Repeat("k", 20_000) + "\n  : 1\nb: [" + strings.Repeat("*a,", 5_000) + "]\n",
		"an alias as a key":          "a: &a " + strings.Repeat("x", 20_000) + "\nb:\n" + strings.Repeat("- {*a : 1}\n", 5_000),
		"itself":                     "a: &a [*a]\n",
		"one in the other":           "a: &a [&b [*a]]\nc: *b\n",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := changeYAML(document, change, &effortBudget{left: effortMax})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "with its aliases written out the YAML has more than 1048576 bytes") {
				t.Errorf("got %v, want that its aliases are too long", err)
			}
			// A node of the parser is some hundred bytes, and an alias can be five.
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20+200*uint64(len(document)) {
				t.Errorf("%d bytes of YAML took %d bytes of memory", len(document), used)
			}
		})
	}
	for name, document := range map[string]string{
		"few aliases":         aliased(20_000, 40),
		"a star in a text":    "a: '*'\nb: 2 * 3\n",
		"defaults by a merge": "base: &base {cpu: 1}\nweb:\n  <<: *base\n  memory: 2\n",
	} {
		if _, err := changeYAML(document, change, &effortBudget{left: effortMax}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
