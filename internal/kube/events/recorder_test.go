// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestNotesAreCutToWhatTheAPITakes(t *testing.T) {
	long := strings.Repeat("x", NoteBytesMax+1)
	for name, test := range map[string]struct {
		reason string
		text   string
		want   string
	}{
		"Short":    {"what fits stays as it is", "all is well", "all is well"},
		"Exact":    {"the limit itself is allowed", long[:NoteBytesMax], long[:NoteBytesMax]},
		"Long":     {"the cut shows", long, long[:NoteBytesMax-len(ellipsis)] + ellipsis},
		"Umlauts":  {"no character is cut in two", strings.Repeat("ü", NoteBytesMax), strings.Repeat("ü", (NoteBytesMax-len(ellipsis))/2) + ellipsis},
		"NotAText": {"what is not UTF-8 is left alone while it fits", "\xff", "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ShortenNote(test.text)
			if got != test.want {
				t.Errorf("%s: got %q (%d bytes), want %q", test.reason, got, len(got), test.want)
			}
			if len(got) > NoteBytesMax || utf8.ValidString(test.text) && !utf8.ValidString(got) {
				t.Errorf("%s: %d bytes, valid UTF-8: %t", test.reason, len(got), utf8.ValidString(got))
			}
		})
	}
}

// eventPatience is how long a recorded event may take to reach the API server.
const eventPatience = time.Minute

func TestTheAPIServerTakesLongNotes(t *testing.T) {
	_, config := servers.Start(t)
	client, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	expect.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	t.Cleanup(broadcaster.Shutdown)
	about := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "about"}}

	NewRecorder(broadcaster.NewRecorder(scheme.Scheme, "test")).
		Eventf(about, nil, corev1.EventTypeWarning, "Long", "Test", "100%% of %s", strings.Repeat("ü", NoteBytesMax))

	watch, err := client.EventsV1().Events(metav1.NamespaceDefault).Watch(t.Context(), metav1.ListOptions{FieldSelector: "reason=Long"})
	expect.NoError(t, err)
	defer watch.Stop()
	select {
	case <-watch.ResultChan():
	case <-time.After(eventPatience):
		t.Errorf("the event did not reach the API server within %s: it refuses notes of more than %d bytes", eventPatience, NoteBytesMax)
	}
}
