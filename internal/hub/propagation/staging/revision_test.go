// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"testing"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// TestARevisionIsDecodedWhenThereIsRoom has a tenant go back to an object of half a million empty values,
// of which little is left when it is stored, while others have all room.
func TestARevisionIsDecodedWhenThereIsRoom(t *testing.T) {
	const half = 192 << 20
	values := make([]any, 500_000)
	for i := range values {
		values[i] = map[string]any{}
	}
	packed, err := revisionContent{Template: map[string]any{"items": values}}.pack()
	if err != nil {
		t.Fatal(err)
	}
	memory := decoding.NewMemory(clock.RealClock{})
	var ends []func()
	for _, namespace := range []string{"bank", "school"} {
		ctx, end := memory.BeginReservation(t.Context(), namespace)
		if err := decoding.TakeMemory(ctx, half); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	looking, end := memory.BeginReservation(ended, "shop")
	defer end()
	if _, err := sourceFromRevision(looking, packed, deliver.WorkSource{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it waits for room", err)
	}
	for _, end := range ends {
		end()
	}
	looking, end = memory.BeginReservation(t.Context(), "shop")
	defer end()
	source, err := sourceFromRevision(looking, packed, deliver.WorkSource{})
	if err != nil {
		t.Fatal(err)
	}
	if items, _ := source.Object.Object["items"].([]any); len(items) != len(values) {
		t.Errorf("it has %d values, want %d", len(items), len(values))
	}
}
