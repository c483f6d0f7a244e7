// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	olm "github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// recorder keeps what OLM would have been told.
type recorder struct {
	got []string
	err error
}

func (r *recorder) Set(_ context.Context, status metav1.ConditionStatus, options ...olm.Option) error {
	if r.err != nil {
		return r.err
	}
	condition := metav1.Condition{Status: status}
	for _, option := range options {
		option(&condition)
	}
	r.got = append(r.got, string(condition.Status)+" "+condition.Reason+": "+condition.Message)
	return nil
}

func TestAnUpgradeWaitsForAllObjects(t *testing.T) {
	const idle, a, b = "True Idle: nothing to do", "False Removing: removing a", "False Removing: removing b"
	type report struct{ name, doing string }
	for name, test := range map[string]struct {
		reason  string
		reports []report
		want    []string
	}{
		"Idle":                {"OLM hears it once", []report{{"a", ""}, {"b", ""}, {"a", ""}}, []string{idle}},
		"Busy":                {"repeated reports are not written again", []report{{"a", "removing a"}, {"a", "removing a"}}, []string{a}},
		"AnotherIsBusy":       {"an idle object says nothing of one that is being removed", []report{{"a", "removing a"}, {"b", ""}}, []string{a}},
		"OneAfterTheOther":    {"the last one that ends lets the upgrade go", []report{{"a", "removing a"}, {"b", "removing b"}, {"a", ""}, {"b", ""}}, []string{a, b, idle}},
		"TheOrderIsNoMatter":  {"which object is named does not depend on who came first", []report{{"b", "removing b"}, {"a", "removing a"}}, []string{b, a}},
		"BusyAgainAfterwards": {"a later removal holds it back again", []report{{"a", "removing a"}, {"a", ""}, {"b", "removing b"}}, []string{a, idle, b}},
	} {
		t.Run(name, func(t *testing.T) {
			signal := &recorder{}
			gate := NewGate(signal, GateText{BusyReason: "Removing", Idle: "nothing to do"})
			for _, r := range test.reports {
				expect.NoError(t, gate.ReportBusy(t.Context(), r.name, r.doing))
			}
			if diff := cmp.Diff(test.want, signal.got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestWhatOLMDidNotTakeIsToldAgain(t *testing.T) {
	refused := errors.New("refused")
	signal := &recorder{err: refused}
	gate := NewGate(signal, GateText{BusyReason: "Removing", Idle: "nothing to do"})
	if err := gate.ReportBusy(t.Context(), "a", ""); !errors.Is(err, refused) {
		t.Errorf("got error %v, want %v", err, refused)
	}
	signal.err = nil
	expect.NoError(t, gate.ReportBusy(t.Context(), "a", ""))
	if diff := cmp.Diff([]string{"True Idle: nothing to do"}, signal.got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWithoutOLMNothingIsReported(t *testing.T) {
	if err := NewGate(nil, GateText{}).ReportBusy(t.Context(), "a", "removing a"); err != nil {
		t.Error(err)
	}
}
