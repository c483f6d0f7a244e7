// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

func TestAPIServer(t *testing.T) {
	served := APIService{Name: "v1.example.com", Available: true, Trouble: "Passed: all checks passed"}
	down := APIService{Name: "v1.example.com", Trouble: "FailedDiscoveryCheck: no route to host"}
	taken := APIService{Name: "v1.example.com", Foreign: `Service "a/b"`}
	running := ComponentRollout{Deployment: "server", CountsFor: operatorv1.ClusterManagerConditionHubAPIServerDegraded, Wanted: 2, Available: 2}
	short := running
	short.Available = 1
	for name, test := range map[string]struct {
		reason   string
		api      AggregatedAPI
		rollouts []ComponentRollout
		want     metav1.ConditionStatus
		because  string
		message  string
		unknown  bool
	}{
		"unwanted":    {reason: "the gate is off", unknown: true},
		"not looked":  {reason: "the walk ended before", api: AggregatedAPI{Wanted: true}, rollouts: []ComponentRollout{running}, unknown: true},
		"available":   {reason: "all is well", api: AggregatedAPI{Wanted: true, Services: []APIService{served}}, rollouts: []ComponentRollout{running}, want: "False", because: "APIServerFunctional"},
		"unavailable": {reason: "the API server says why", api: AggregatedAPI{Wanted: true, Services: []APIService{down}}, rollouts: []ComponentRollout{running}, want: "True", because: "APIServiceUnavailable", message: `APIService "v1.example.com" is not available: FailedDiscoveryCheck: no route to host`},
		"taken":       {reason: "it is of somebody else", api: AggregatedAPI{Wanted: true, Services: []APIService{served, taken}}, rollouts: []ComponentRollout{running}, want: "True", because: "APIServiceTaken", message: `belongs to Service "a/b"`},
		"pods missing": {
			reason: "that is why nobody answers", api: AggregatedAPI{Wanted: true, Services: []APIService{down}}, rollouts: []ComponentRollout{short},
			want: "True", because: "UnavailableAPIServerPod", message: "server has 1 of 2 pods available",
		},
		"forbidden":   {reason: "nothing is installed", api: AggregatedAPI{Wanted: true, Forbidden: true}, want: "True", because: "APIServerNotPermitted", message: "FeaturesLimited"},
		"unaddressed": {reason: "nobody told", api: AggregatedAPI{Wanted: true, Unaddressed: true}, want: "True", because: "APIServerAddressMissing", message: "fleet.capstan.io/apiserver-address"},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := APIServerCondition(test.api, test.rollouts)
			if known == test.unknown {
				t.Fatalf("%s: known %t", test.reason, known)
			}
			if known && (got.Status != test.want || got.Reason != test.because || !strings.Contains(got.Message, test.message)) {
				t.Errorf("%s: got %+v", test.reason, got)
			}
		})
	}
}
