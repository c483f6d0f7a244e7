// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// TestWhatIsCopiedIntoBindingsIsBounded has policies of which much is copied into the binding of each object.
func TestWhatIsCopiedIntoBindingsIsBounded(t *testing.T) {
	names := func(count, bytes int) []string {
		all := make([]string, 0, count)
		for i := range count {
			all = append(all, fmt.Sprintf("%0*d", bytes, i))
		}
		return all
	}
	suspended := func(count, bytes int) policyv1alpha1.PropagationSpec {
		return policyv1alpha1.PropagationSpec{Suspension: &policyv1alpha1.Suspension{DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: names(count, bytes)}}}
	}
	preserved := func(count int) policyv1alpha1.PropagationSpec {
		rules := make([]policyv1alpha1.StatePreservationRule, count)
		return policyv1alpha1.PropagationSpec{Failover: &policyv1alpha1.FailoverBehavior{
			Cluster: &policyv1alpha1.ClusterFailoverBehavior{StatePreservation: &policyv1alpha1.StatePreservation{Rules: rules}},
		}}
	}
	placed := func(count, bytes int) policyv1alpha1.PropagationSpec {
		return policyv1alpha1.PropagationSpec{Placement: policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names(count, bytes)}}}
	}
	for name, test := range map[string]struct {
		spec policyv1alpha1.PropagationSpec
		want string
	}{
		"nothing":                  {policyv1alpha1.PropagationSpec{}, ""},
		"many suspended":           {suspended(SuspendedMax, 63), ""},
		"too many suspended":       {suspended(SuspendedMax+1, 1), "spec.suspension.dispatchingOnClusters.clusterNames: Too many: 1001: must have at most 1000 items"},
		"long names of suspended":  {suspended(SuspendedMax, 253), "spec: Too long"},
		"many rules":               {preserved(PreservedMax), ""},
		"too many rules":           {preserved(PreservedMax + 1), "spec.failover: Too many: 101: must have at most 100 items"},
		"a large fleet by names":   {placed(4000, 20), ""},
		"a megabyte of names":      {placed(10_000, 100), "spec: Too long"},
		"what is not copied is ok": {policyv1alpha1.PropagationSpec{DependentOverrides: names(DependentOverridesMax, 1000)}, ""},
	} {
		problems := CheckCopies(&test.spec, field.NewPath("spec"))
		if len(problems) > 1 || (len(problems) == 1) != (test.want != "") || len(problems) == 1 && !strings.HasPrefix(problems[0].Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, problems, test.want)
		}
	}
}
