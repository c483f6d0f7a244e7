// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// step is the time between two samples, and between two evaluations.
const step = time.Minute

// story is what happens to some series, and what the rules make of it.
type story struct {
	Name string
	// Alert is the one that the story is about; others may fire as well.
	Alert string
	// series are lines in the language of Prometheus' tests: a series, and its
	// values at each step.
	series string
	// quiet is the time at which the alert does not fire yet, fires when it does,
	// over when it does not any more. A zero time is not looked at.
	quiet, Fires, over time.Duration
	// labels are those of the alerts that fire, but for alertname.
	labels []string
	// says is in the description.
	says string
}

// RunStory plays the story to Prometheus, and compares when the alert fires.
func (s *story) RunStory(t testing.TB) {
	t.Helper()
	loader, err := promqltest.NewLazyLoader(fmt.Sprintf("load %s\n%s", "1m", s.series), promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: PromQL(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := loader.Close(); err != nil {
			t.Error(err)
		}
	})
	loader.SubqueryInterval = step
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		AppendableV2: loader.Storage(), Context: t.Context(), Parser: PromQL(),
		NotifyFunc: func(_ context.Context, _ string, _ ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, RuleFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	group := s.group(t, groups)
	for at := time.Duration(0); at <= max(s.quiet, s.Fires, s.over); at += step {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			group.Eval(loader.Context(), now)
		})
		firing := s.firing(t, group)
		switch at {
		case s.Fires:
			s.compare(t, firing)
		case s.quiet, s.over:
			if len(firing) > 0 && at > 0 {
				t.Errorf("after %s it fires: %v", at, firing)
			}
		}
	}
}

// group returns the one with the story's rule.
func (s *story) group(t testing.TB, groups map[string]*rules.Group) *rules.Group {
	t.Helper()
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			if rule.Name() == s.Alert {
				return group
			}
		}
	}
	t.Fatalf("there is no alert %s", s.Alert)
	return nil
}

// firing returns the alerts of the story's rule.
func (s *story) firing(t testing.TB, group *rules.Group) []*rules.Alert {
	t.Helper()
	var firing []*rules.Alert
	for _, rule := range group.AlertingRules() {
		if err := rule.LastError(); err != nil {
			t.Fatalf("evaluating %s: %v", rule.Name(), err)
		}
		for _, alert := range rule.ActiveAlerts() {
			if rule.Name() == s.Alert && alert.State == rules.StateFiring {
				firing = append(firing, alert)
			}
		}
	}
	return firing
}

func (s *story) compare(t testing.TB, firing []*rules.Alert) {
	t.Helper()
	want := map[string]bool{}
	for _, text := range s.labels {
		want[text] = true
	}
	for _, alert := range firing {
		text := labels.NewBuilder(alert.Labels).Del("alertname").Labels().String()
		if !want[text] {
			t.Errorf("after %s an alert fires with labels %s, want %q", s.Fires, text, s.labels)
		}
		delete(want, text)
		description := alert.Annotations.Get("description")
		if !strings.Contains(description, s.says) || strings.Contains(description, "<") {
			t.Errorf("the alert says %q, want it to have %q", description, s.says)
		}
	}
	for text := range want {
		t.Errorf("after %s no alert fires with labels %s", s.Fires, text)
	}
}
