// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowed

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// rulesOf reads the ClusterRole at the beginning of a file.
func rulesOf(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile(file)
	expect.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	expect.NoError(t, yaml.UnmarshalStrict([]byte(strings.Split(string(content), "\n---")[0]), role))
	return role.Rules
}

func TestWhatIsOff(t *testing.T) {
	own, _, err := config.Rules(config.ClusterManager)
	expect.NoError(t, err)
	ocm := rulesOf(t, "../../../test/testdata/ocm/cluster-manager.yaml")
	beyond := rulesOf(t, "../../../config/samples/ocm-chart/clusterrole.yaml")
	propagation := rulesOf(t, "../../../config/samples/propagation/clusterrole.yaml")
	in := func(groups ...string) []rbacv1.PolicyRule {
		return slices.DeleteFunc(slices.Clone(beyond), func(rule rbacv1.PolicyRule) bool { return !slices.Contains(groups, rule.APIGroups[0]) })
	}
	for name, test := range map[string]struct {
		reason string
		held   []rbacv1.PolicyRule
		hosted bool
		// propagates is whether the gate is on.
		propagates bool
		want       []Feature
	}{
		"our role":         {reason: "it holds what all components need", held: own},
		"the role of OCM":  {reason: "its contract needs no more", held: ocm, want: []Feature{Connections, Push, Events, Binding, Users, AggregatedAPI}},
		"with ours beside": {reason: "the documentation says so", held: slices.Concat(ocm, beyond)},
		"with ClusterConnections": {
			reason: "Push needs more than these", held: slices.Concat(ocm, in("fleet.capstan.io")), want: []Feature{Push, Events, Binding, Users, AggregatedAPI},
		},
		"with all but ClusterConnections": {
			reason: "Push needs these as well", held: slices.Concat(ocm, in("", rbacv1.GroupName, "networking.k8s.io", "events.k8s.io")),
			want: []Feature{Connections, Push, Users, AggregatedAPI},
		},
		"a hosted hub": {reason: "our role has its secrets as well", held: own, hosted: true},
		"a hosted hub without the secret of its push agent": {
			reason: "there would be no way to the hub", hosted: true, want: []Feature{Push},
			held: slices.DeleteFunc(slices.Concat(ocm, beyond), func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.ResourceNames, "push-agent-sa-kubeconfig")
			}),
		},
		"nothing": {reason: "a role that is no operator's", want: []Feature{Connections, Push, NetworkPolicies, Events, Binding, Users, AggregatedAPI, rest}},
		"propagation with our role": {
			reason: "foreign Secrets are not the operator's by default", held: own, propagates: true, want: []Feature{Propagation},
		},
		"propagation with the rights for it": {
			reason: "the documentation says so", held: slices.Concat(own, propagation), propagates: true,
		},
		"propagation on a hosted hub": {reason: "our role has its secret as well", held: slices.Concat(own, propagation), propagates: true, hosted: true},
		"propagation under the role of OCM": {
			reason: "the controller has other rules, too", held: slices.Concat(ocm, beyond, propagation), propagates: true, want: []Feature{Propagation},
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := rights.FromRules(test.held...)
			decision, err := DecideFeatures(OperatorRights{Name: "the operator", Hub: held, Home: held, Hosted: test.hosted, Propagates: test.propagates}, config.Rules)
			expect.NoError(t, err)
			var off []Feature
			for _, feature := range []Feature{Connections, Push, NetworkPolicies, Events, Binding, Users, AggregatedAPI, Propagation, rest} {
				if decision.IsFeatureOff(feature) {
					off = append(off, feature)
				}
			}
			if diff := cmp.Diff(test.want, off); diff != "" {
				t.Errorf("%s: what is off, -want +got\n%s\n%s", test.reason, diff, decision.FeaturesLimitedCondition().Message)
			}
			condition := decision.FeaturesLimitedCondition()
			if limited := condition.Status == metav1.ConditionTrue; limited != (len(test.want) > 0) || decision.HasLimits() != limited ||
				limited != (condition.Reason == operatorv1.ClusterManagerReasonPermissionsMissing) {
				t.Errorf("the condition is %+v", condition)
			}
		})
	}
}
