// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/server/features"
)

func TestTheNextStepsAreThoseThatTheHubHas(t *testing.T) {
	for name, c := range map[string]struct {
		gates []string
		api   bool
	}{
		"by default":              {nil, true},
		"without the Cluster API": {[]string{"AggregatedAPI=false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			hub, err := wished(nil).hostedHubSpec(c.gates, nil)
			if err != nil {
				t.Fatal(err)
			}
			said := nextSteps("fleet", hasFeature(hub, features.AggregatedAPI))
			for command, want := range map[string]bool{
				"capstan token create --context fleet --print-register-command": true,
				"capstan get clusters --context fleet":                          true,
				"kubectl get clusters --context fleet":                          c.api,
			} {
				if got := strings.Contains(said, command); got != want {
					t.Errorf("%q is named: %t, want %t", command, got, want)
				}
			}
		})
	}
}
