// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"testing"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// TestAlerts lets Prometheus' engine evaluate the rules.
func TestAlerts(t *testing.T) {
	fired, quiet := map[string]bool{}, map[string]bool{}
	for _, s := range stories.AllStories() {
		t.Run(s.Alert+"/"+s.Name, func(t *testing.T) {
			s.RunStory(t)
			fired[s.Alert] = fired[s.Alert] || s.Fires > 0
			quiet[s.Alert] = quiet[s.Alert] || s.Fires == 0
		})
	}
	for _, rule := range alertRules(t) {
		if !fired[rule.Alert] || !quiet[rule.Alert] {
			t.Errorf("alert %s needs a story in which it fires and one in which it does not", rule.Alert)
		}
	}
}
