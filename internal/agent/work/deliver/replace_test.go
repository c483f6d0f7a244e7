// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/kube/apply/replace"
)

// TestNothingIsNarrowedWithoutATry has an object with many parts that the server refuses as a whole, where no dry run is left
// or the cluster has gone. The narrowing has no member to ask.
func TestNothingIsNarrowedWithoutATry(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	narrow := func(ctx context.Context, parts, tries int) float64 {
		spec := map[string]any{}
		for i := range parts {
			spec[fmt.Sprint("p", i)] = int64(1)
		}
		object := func(spec map[string]any) map[string]any {
			return map[string]any{"apiVersion": "a/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "spec": spec}
		}
		managers := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:a":{}}}`)}}
		ours := func(*metav1.ManagedFieldsEntry) bool { return true }
		draft, err := replace.NewDraft(object(spec), object(map[string]any{"a": "b"}), replace.FieldOwners{Managers: managers, Ours: ours}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		again, err := (&draftNarrowing{draft: draft, tries: tries}).nextDraft(ctx, []metav1.StatusCause{{Field: "spec"}})
		runtime.ReadMemStats(&after)
		if err != nil || again {
			t.Errorf("another draft: %t, error %v", again, err)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	narrow(over, 100, 5)
	narrow(t.Context(), 100, 0)
	if few, many := narrow(t.Context(), 100, 0), narrow(t.Context(), 800, 0); many > 24*few {
		t.Errorf("100 parts take %.0f bytes, and 800 take %.0f", few, many)
	}
}
