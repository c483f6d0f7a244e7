// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"os"
	"strings"
	"testing"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
)

func TestThePagesExplainEveryConditionAndReason(t *testing.T) {
	for page, names := range map[string][]string{
		"../../../docs/spec/karmada-cluster/cluster.md": {
			clusterv1alpha1.ClusterConditionReady, clusterv1alpha1.ClusterReasonReady, clusterv1alpha1.ClusterReasonNotReady,
			clusterv1alpha1.ClusterReasonNotReachable, clusterv1alpha1.ClusterReasonStatusUnknown,
			clusterv1alpha1.ClusterConditionCompleteAPIEnablements, clusterv1alpha1.ClusterReasonComplete,
			clusterv1alpha1.ClusterReasonPartial, clusterv1alpha1.ClusterReasonEmpty,
		},
		"../../../docs/spec/karmada-work/work.md": {
			workv1alpha1.WorkConditionApplied, workv1alpha1.WorkReasonAppliedSuccessful, workv1alpha1.WorkReasonAppliedFailed,
		},
	} {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(string(content), "`"+name+"`") {
				t.Errorf("%s does not explain `%s`", page, name)
			}
		}
	}
}
