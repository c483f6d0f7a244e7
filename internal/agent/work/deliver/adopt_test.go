// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestAnyEntryOfManagedFieldsIsLookedAt has entries as whoever creates an object may write them: an
// API server takes any element anywhere.
func TestAnyEntryOfManagedFieldsIsLookedAt(t *testing.T) {
	for name, test := range map[string]struct{ entry, want string }{
		"a value at the root":       {`{"v:1":{}}`, `{}`},
		"an index at the root":      {`{"i:0":{"f:a":{}}}`, `{}`},
		"keys at the root":          {`{"k:{\"name\":\"a\"}":{".":{},"f:b":{}}}`, `{}`},
		"a set as the spec":         {`{"f:spec":{"v:\"a\"":{}}}`, `{"f:spec":{"v:\"a\"":{}}}`},
		"a list as the spec":        {`{"f:spec":{"k:{\"name\":\"a\"}":{".":{}}}}`, `{"f:spec":{"k:{\"name\":\"a\"}":{}}}`},
		"a list as metadata":        {`{"f:metadata":{"v:1":{},"i:0":{"f:labels":{}},"k:{\"a\":1}":{"f:b":{"f:c":{}}}}}`, `{}`},
		"replicas and what is next": {`{"f:spec":{"f:replicas":{},"f:paused":{},"f:a":{"f:replicas":{}}}}`, `{"f:spec":{"f:a":{"f:replicas":{}},"f:paused":{}}}`},
		"labels and a restart": {
			`{"f:metadata":{"f:labels":{"f:a":{}},"f:finalizers":{"v:\"b\"":{}}},"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`,
			`{"f:metadata":{"f:labels":{"f:a":{}}}}`,
		},
	} {
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(strings.NewReader(test.entry)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := adoptableFields(fields).ToJSON()
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, test.want)
		}
	}
}

// TestWhoeverNamesManagersFillsNoMemory shows that what is kept of an adoption is short: a member
// chooses the names of fields and managers.
func TestWhoeverNamesManagersFillsNoMemory(t *testing.T) {
	if got := strings.Join(listNames([]string{"kubectl-a", "b\u001b[2J\n"}), ", "); got != "kubectl-a, b?[2J?" {
		t.Errorf("got %q", got)
	}
	names := []string{strings.Repeat("x", 1<<20)}
	for range goneMax {
		names = append(names, "kubectl")
	}
	if got := strings.Join(listNames(names), ", "); len(got) > 2<<10 || !strings.HasSuffix(got, ", and more") {
		t.Errorf("got %d bytes, %.200q", len(got), got)
	}
}
