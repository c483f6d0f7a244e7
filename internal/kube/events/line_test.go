// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestEventsAreLinesOfTheLog(t *testing.T) {
	typed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "typed"}}
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Widget"}, ObjectMeta: metav1.ObjectMeta{Name: "metadata"}}
	type event struct {
		about    runtime.Object
		kind     string
		reason   string
		note     string
		argument any
	}
	for name, test := range map[string]struct {
		reason string
		events []event
		want   []string
	}{
		"Normal": {
			"a decision is a line with what it is about",
			[]event{{typed, corev1.EventTypeNormal, "Chosen", "%s chosen", "one"}},
			[]string{`"level"=0 "msg"="one chosen" "reason"="Chosen" "kind"="ConfigMap" "namespace"="space" "name"="typed" "warning"=false`},
		},
		"Warning": {
			"a warning is about somebody else, so it is no error",
			[]event{{metadata, corev1.EventTypeWarning, "Denied", "no: %v", 1}},
			[]string{`"level"=0 "msg"="no: 1" "reason"="Denied" "kind"="Widget" "namespace"="" "name"="metadata" "warning"=true`},
		},
		"Repeated": {
			"what is said again is not logged again, as opposed to what is news",
			[]event{{typed, corev1.EventTypeNormal, "Tried", "attempt %d", 1}, {typed, corev1.EventTypeNormal, "Tried", "attempt %d", 1}, {typed, corev1.EventTypeNormal, "Tried", "attempt %d", 2}},
			[]string{
				`"level"=0 "msg"="attempt 1" "reason"="Tried" "kind"="ConfigMap" "namespace"="space" "name"="typed" "warning"=false`,
				`"level"=0 "msg"="attempt 2" "reason"="Tried" "kind"="ConfigMap" "namespace"="space" "name"="typed" "warning"=false`,
			},
		},
		"Long": {
			"a line is no longer than the note of an event",
			[]event{{typed, corev1.EventTypeWarning, "Refused", "no: %s", strings.Repeat("x", 1<<20)}},
			[]string{`"level"=0 "msg"="no: ` + strings.Repeat("x", NoteBytesMax-len("no: ")-len(ellipsis)) + `…" "reason"="Refused" "kind"="ConfigMap" "namespace"="space" "name"="typed" "warning"=true`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r := NewDiscardRecorder().WithLogger(funcr.New(func(_, text string) { got = append(got, text) }, funcr.Options{}))
			for _, e := range test.events {
				r.Eventf(e.about, nil, e.kind, e.reason, "Test", e.note, e.argument)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}
