// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

func TestWhatIsToldOfAnEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event corev1.Event
		want  event
	}{
		"of a cluster": {
			corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "ManagedCluster", Name: "a"}, Type: "Normal", Reason: "Joined", Count: 2, Source: corev1.EventSource{Component: "agent"}},
			event{Object: "ManagedCluster a", Type: "Normal", Reason: "Joined", Count: 2, From: "agent"},
		},
		"of an object in a namespace": {
			corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "ManifestWork", Namespace: "a", Name: "web"}},
			event{Object: "ManifestWork a/web"},
		},
		"the controller that reports is told before the source": {
			corev1.Event{ReportingController: "new", Source: corev1.EventSource{Component: "old"}}, event{Object: " ", From: "new"},
		},
		"a message of several lines is one": {corev1.Event{Message: " a\n\tb\r\n\nc "}, event{Object: " ", Message: "a b c"}},
		"a series counts":                   {corev1.Event{Series: &corev1.EventSeries{Count: 7}}, event{Object: " ", Count: 7}},
		"a series that counts less":         {corev1.Event{Count: 9, Series: &corev1.EventSeries{Count: 7}}, event{Object: " ", Count: 9}},
	} {
		if diff := cmp.Diff(c.want, newEventRecord(&c.event)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// answer is what the hub says when it is asked for the Events of a place.
type answer struct {
	list corev1.EventList
	err  error
}

// asked is a hub that gives one answer after the other.
type asked struct {
	client.Client
	answers []answer
}

func (a *asked) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if len(a.answers) == 0 {
		return nil
	}
	next := a.answers[0]
	a.answers = a.answers[1:]
	*into.(*corev1.EventList) = next.list
	return next.err
}

func listed(next string, events ...corev1.Event) answer {
	return answer{list: corev1.EventList{ListMeta: metav1.ListMeta{Continue: next}, Items: events}}
}

func happened(uid types.UID, seconds int64, kind, reason string) corev1.Event {
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{UID: uid}, LastTimestamp: metav1.Time{Time: at(seconds)}, Type: kind, Reason: reason,
		InvolvedObject: corev1.ObjectReference{Kind: "ManagedCluster", Name: "a"},
	}
}

// TestTheEventsOfAllPlaces are told once each, the latest last, and what cannot be read or
// is too much is told besides.
func TestTheEventsOfAllPlaces(t *testing.T) {
	t.Parallel()
	forbidden := answer{err: apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))}
	late, warning, early := happened("1", 30, "Normal", "Late"), happened("2", 20, "Warning", "Bad"), happened("3", 10, "Normal", "Early")
	for name, c := range map[string]struct {
		answers  []answer
		warnings bool
		reasons  []string
		remarks  []string
	}{
		"none":                     {reasons: []string{}},
		"of two places":            {answers: []answer{listed("", late), listed("", warning, early)}, reasons: []string{"Early", "Bad", "Late"}},
		"one that two places have": {answers: []answer{listed("", late, early), listed("", early), listed("", late)}, reasons: []string{"Early", "Late"}},
		"only warnings":            {answers: []answer{listed("", late, warning), listed("", early)}, warnings: true, reasons: []string{"Bad"}},
		"two at once, by what they say": {
			answers: []answer{listed("", happened("b", 10, "Normal", "B")), listed("", happened("a", 10, "Normal", "A"))}, reasons: []string{"A", "B"},
		},
		"a place that may not be read": {
			answers: []answer{forbidden, listed("", late)}, reasons: []string{"Late"}, remarks: []string{"You may not read Events of namespace a."},
		},
		"a place with more": {
			answers: []answer{listed(""), listed("more", late)}, reasons: []string{"Late"},
			remarks: []string{"There are more than 500 Events of namespace karmada-es-a: \"kubectl get events\" lists all."},
		},
	} {
		found, remarks, err := (&eventsCommand{warnings: c.warnings}).readEvents(t.Context(), &asked{answers: c.answers}, "a")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		reasons := []string{}
		for _, e := range found {
			reasons = append(reasons, e.Reason)
		}
		if diff := cmp.Diff([][]string{c.reasons, c.remarks}, [][]string{reasons, remarks}); diff != "" || found == nil {
			t.Errorf("%s: reasons and remarks (-want +got):\n%s", name, diff)
		}
	}
	broken := errors.New("broken")
	if _, _, err := (&eventsCommand{}).readEvents(t.Context(), &asked{answers: []answer{listed("", late), {err: broken}}}, "a"); !errors.Is(err, broken) {
		t.Errorf("a hub that does not answer gives %v", err)
	}
}

func TestTheTableOfEvents(t *testing.T) {
	t.Parallel()
	c := &eventsCommand{session: hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), clocktesting.NewFakePassiveClock(at(1000)))}
	got := c.formatEvents([]event{
		{Last: metav1.Time{Time: at(910)}, Type: "Normal", Reason: "Joined", Object: "ManagedCluster a", From: "agent", Count: 1, Message: "it is here"},
		{Last: metav1.Time{Time: at(990)}, Type: "Warning", Reason: "Bad", Object: "ManifestWork a/web", Count: 3},
	})
	want := "" +
		"LAST SEEN       TYPE      REASON   OBJECT               FROM    MESSAGE\n" +
		"90s             Normal    Joined   ManagedCluster a     agent   it is here\n" +
		"10s (3 times)   Warning   Bad      ManifestWork a/web\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := c.formatEvents([]event{}); got != "" {
		t.Errorf("of no Events there is %q", got)
	}
}
