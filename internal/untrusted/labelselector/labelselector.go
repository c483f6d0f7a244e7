// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labelselector bounds the label selectors that users write. Each object or
// cluster of a hub is compared with all of their terms, and a policy has room for a
// hundred thousand.
//
// Non-goal: it compares nothing, which package labels of Kubernetes does.
package labelselector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TermsMax is how many terms all selectors of one field may have together.
const TermsMax = 1000

// CountTerms counts what labels are compared with: each label of matchLabels, each value of
// matchExpressions, and each expression without one. A selector that is nil has none.
func CountTerms(selectors ...*metav1.LabelSelector) int {
	terms := 0
	for _, s := range selectors {
		if s == nil {
			continue
		}
		terms += len(s.MatchLabels)
		for _, e := range s.MatchExpressions {
			terms += max(1, len(e.Values))
		}
	}
	return terms
}

// CheckTerms returns what is wrong with a field whose selectors have so many terms together,
// nil if these are TermsMax at most.
func CheckTerms(path *field.Path, terms int) field.ErrorList {
	if terms <= TermsMax {
		return nil
	}
	mistake := field.TooMany(path, terms, TermsMax)
	mistake.Detail += ": these are the labels and values of its selectors; use fewer, or select by a label that all have in common"
	return field.ErrorList{mistake}
}
