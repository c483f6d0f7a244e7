// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// manyConditions returns a status of n manifests, of which every third is
// Complete and every fifth has failed.
func manyConditions(n int, message string) *workv1.ManifestWorkStatus {
	status := &workv1.ManifestWorkStatus{}
	at := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	c := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: at, ObservedGeneration: 1<<62 + 1,
		}
	}
	for i := range n {
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop", Name: fmt.Sprintf("object-%d", i),
		}}
		applied := c("Applied", metav1.ConditionTrue, "AppliedManifestComplete", "The object matches the manifest.")
		if i%5 == 0 {
			applied = c("Applied", metav1.ConditionFalse, "AppliedManifestFailed", message)
		}
		m.Conditions = append(m.Conditions, applied, c("Available", metav1.ConditionTrue, "ResourceAvailable", "The object exists on the cluster."))
		if i%3 == 0 {
			m.Conditions = append(m.Conditions, c("Complete", metav1.ConditionTrue, "ConditionRuleEvaluated", "It is done."))
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, m)
	}
	status.Conditions = append(status.Conditions, c("Applied", metav1.ConditionFalse, "AppliedManifestWorkFailed", message))
	return status
}

func jsonBytes(t testing.TB, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

func TestSizesAreNotSmallerThanTheJSON(t *testing.T) {
	whole, yes := int64(-1<<63), false
	for reason, text := range map[string]string{
		"plain":         "abc",
		"quotes":        `{"a":"b\\"}` + "\n\t\r\b\f",
		"control":       "\x00\x01\x1f\x7f",
		"html":          "<a&b>",
		"other scripts": "日本語 \u2028\u2029 é",
		"broken":        "\xff\xfe" + "\xe3\x81",
	} {
		t.Run(reason, func(t *testing.T) {
			text := strings.Repeat(text, 50)
			status := manyConditions(20, text)
			status.ResourceStatus.Manifests[3].StatusFeedback.Values = []workv1.FeedbackValue{
				{Name: text, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &text}},
				{Name: "b", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &text}},
				{Name: "c", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &whole}},
				{Name: "d", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: &yes}},
			}
			if got, want := StatusBytes(status), jsonBytes(t, status); got < want || got > want*5/4 {
				t.Errorf("the status has %d bytes, counted as %d", want, got)
			}
		})
	}
}

func TestStatusIsShortenedAsFarAsNeeded(t *testing.T) {
	long := strings.Repeat("The object cannot be applied, and this tells at length why. ", 100)
	for reason, test := range map[string]struct {
		n, room   int
		message   int // bytes at most of those that failed
		left      bool
		failed    bool // all that failed have entries
		completed bool // all that are Complete have entries
	}{
		"what fits stays as it is":                       {n: 100, room: 1 << 20, message: len(long), failed: true, completed: true},
		"long messages are cut":                          {n: 1000, room: 700 << 10, message: 256, failed: true, completed: true},
		"then those that say nothing new":                {n: 1000, room: 620 << 10, message: 96, failed: true, completed: true},
		"then objects that are fine are left out":        {n: 2000, room: 700 << 10, message: 96, left: true, failed: true, completed: true},
		"then those that failed":                         {n: 2000, room: 550 << 10, message: 96, left: true, completed: true},
		"and in the end those that are Complete as well": {n: 2000, room: 64 << 10, message: 96, left: true},
		"up to all": {n: 2000, room: 0, left: true},
	} {
		t.Run(reason, func(t *testing.T) {
			status := manyConditions(test.n, long)
			left := shrinkStatus(status, test.room)
			if got := jsonBytes(t, status.ResourceStatus); got > test.room+len(`{"manifests":[]}`) {
				t.Errorf("it has %d bytes, and there is room for %d", got, test.room)
			}
			have := map[int32]bool{}
			last := int32(-1)
			for i := range status.ResourceStatus.Manifests {
				m := &status.ResourceStatus.Manifests[i]
				have[m.ResourceMeta.Ordinal] = true
				if m.ResourceMeta.Ordinal <= last {
					t.Errorf("manifest %d comes after %d", m.ResourceMeta.Ordinal, last)
				}
				last = m.ResourceMeta.Ordinal
				if c := m.Conditions[0]; c.Status == metav1.ConditionFalse && (len(c.Message) > test.message || c.Message == "") {
					t.Errorf("manifest %d has a message of %d bytes, want 1 to %d", last, len(c.Message), test.message)
				}
			}
			if left != test.n-len(have) || (left > 0) != test.left {
				t.Errorf("%d of %d are left out, and it says %d", test.n-len(have), test.n, left)
			}
			failed, completed := hasEach(have, test.n, 5), hasEach(have, test.n, 3)
			if failed != test.failed || completed != test.completed {
				t.Errorf("all that failed: %v, want %v; all that are complete: %v, want %v", failed, test.failed, completed, test.completed)
			}
		})
	}
}

// hasEach reports whether all of n numbers are there that can be divided by a step.
func hasEach(have map[int32]bool, n, step int) bool {
	for i := 0; i < n; i += step {
		if !have[int32(i)] {
			return false
		}
	}
	return true
}

func TestTheSameStateIsShortenedTheSameWay(t *testing.T) {
	one, two := manyConditions(3000, "failed"), manyConditions(3000, "failed")
	shrinkStatus(one, 300<<10)
	shrinkStatus(two, 300<<10)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Error(diff)
	}
}
