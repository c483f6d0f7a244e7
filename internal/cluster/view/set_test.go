// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

func TestWhichClustersASetSelects(t *testing.T) {
	const byLabel = clusterv1beta2.SelectorTypeLabelSelector
	cases := map[string]struct {
		reason   string
		kind     clusterv1beta2.SelectorType
		selector *metav1.LabelSelector
		labels   labels.Set
		want     bool
		wantErr  string
	}{
		"a cluster with the label of the set":   {reason: "it is in it", labels: labels.Set{clusterv1.LabelClusterSet: "prod"}, want: true},
		"a cluster with the label of another":   {reason: "it is in that one only", labels: labels.Set{clusterv1.LabelClusterSet: "test"}},
		"a cluster without the label":           {reason: "it is in none"},
		"the same with the type spelled out":    {reason: "it is the default", kind: clusterv1beta2.SelectorTypeExclusiveClusterSetLabel, labels: labels.Set{clusterv1.LabelClusterSet: "prod"}, want: true},
		"a label selector that matches":         {reason: "the label of sets does not count", kind: byLabel, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "x"}}, labels: labels.Set{"env": "x"}, want: true},
		"a label selector that does not match":  {reason: "the label of sets does not count", kind: byLabel, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "x"}}, labels: labels.Set{clusterv1.LabelClusterSet: "prod"}},
		"an empty label selector":               {reason: "the set is global", kind: byLabel, selector: &metav1.LabelSelector{}, want: true},
		"no label selector":                     {reason: "what was forgotten selects nothing", kind: byLabel},
		"a label selector that cannot be right": {reason: "the user is told", kind: byLabel, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "a b"}}, wantErr: `spec.clusterSelector.labelSelector of ManagedClusterSet "prod"`},
		"an unknown type":                       {reason: "nobody knows what it means", kind: "Sometimes", wantErr: `selectorType "Sometimes" of ManagedClusterSet "prod" is unknown`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &clusterv1beta2.ManagedClusterSet{
				ObjectMeta: metav1.ObjectMeta{Name: "prod"},
				Spec: clusterv1beta2.ManagedClusterSetSpec{
					ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: tc.kind, LabelSelector: tc.selector},
				},
			}
			selector, err := SetSelector(set)
			switch {
			case tc.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%s: got the error %v", tc.reason, err)
				}
			case err != nil || selector.Matches(tc.labels) != tc.want:
				t.Errorf("%s: selected %t (%v), want %t", tc.reason, selector != nil && selector.Matches(tc.labels), err, tc.want)
			}
		})
	}
}

func TestWhatPutsAClusterIntoASet(t *testing.T) {
	selects := func(kind clusterv1beta2.SelectorType, selector *metav1.LabelSelector) clusterv1beta2.ManagedClusterSelector {
		return clusterv1beta2.ManagedClusterSelector{SelectorType: kind, LabelSelector: selector}
	}
	const byLabel = clusterv1beta2.SelectorTypeLabelSelector
	unlike := func(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: operator, Values: []string{"test"}}}}
	}
	for name, c := range map[string]struct {
		selector clusterv1beta2.ManagedClusterSelector
		want     bool
	}{
		"a label":                         {selects(byLabel, &metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}}), true},
		"another label":                   {selects(byLabel, &metav1.LabelSelector{MatchLabels: map[string]string{"env": "test"}}), false},
		"any cluster":                     {selects(byLabel, &metav1.LabelSelector{}), false},
		"no cluster":                      {selects(byLabel, nil), false},
		"any cluster that is not another": {selects(byLabel, unlike(metav1.LabelSelectorOpNotIn)), false},
		"what cannot be read":             {selects(byLabel, unlike("Unlike")), false},
		"any of the default set":          {selects(byLabel, &metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.LabelClusterSet: "default"}}), false},
		"the label of sets, which is another matter": {selects(clusterv1beta2.SelectorTypeExclusiveClusterSetLabel, nil), false},
	} {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		set.Spec.ClusterSelector = c.selector
		if got := JoinsByLabels(set, map[string]string{"env": "production", clusterv1.LabelClusterSet: "default"}); got != c.want {
			t.Errorf("a set that selects %s: %t, want %t", name, got, c.want)
		}
	}
}
