// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition expects that a condition is there, is about a generation, and has the status and the
// reason of the one that is wanted, and its message as a part of its own.
func Condition(t testing.TB, conditions []metav1.Condition, generation int64, want metav1.Condition) *metav1.Condition {
	t.Helper()
	got := meta.FindStatusCondition(conditions, want.Type)
	if got == nil {
		t.Fatalf("condition %s is missing; there are %+v", want.Type, conditions)
	}
	if got.Status != want.Status || got.Reason != want.Reason || !strings.Contains(got.Message, want.Message) {
		t.Errorf("condition %s is %s/%s (%s), want %s/%s and %q in the message",
			want.Type, got.Status, got.Reason, got.Message, want.Status, want.Reason, want.Message)
	}
	if got.ObservedGeneration != generation {
		t.Errorf("condition %s is of generation %d, want %d", want.Type, got.ObservedGeneration, generation)
	}
	return got
}
