// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package labelselector

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTermsAreCounted(t *testing.T) {
	values := make([]string, TermsMax-3)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	one := &metav1.LabelSelector{
		MatchLabels: map[string]string{"app": "web", "tier": "front"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "zone", Operator: metav1.LabelSelectorOpExists}, {Key: "number", Operator: metav1.LabelSelectorOpIn, Values: values},
		},
	}
	if got := CountTerms(one, nil); got != TermsMax {
		t.Errorf("%d terms, want %d", got, TermsMax)
	}
	path := field.NewPath("spec")
	if problems := CheckTerms(path, CountTerms(one, nil)); len(problems) > 0 {
		t.Error(problems)
	}
	more := &metav1.LabelSelector{MatchLabels: map[string]string{"one": "more"}}
	if problems := CheckTerms(path, CountTerms(one, more)); len(problems) != 1 || !strings.Contains(problems[0].Error(), "spec: Too many: 1001: must have at most 1000 items: these are") {
		t.Error(problems)
	}
}
