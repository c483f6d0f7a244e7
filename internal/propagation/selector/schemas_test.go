// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/config"
)

// TestSelectorsAreBounded looks at the selectors of every kind of policy: a watch may be
// started for each of them.
func TestSelectorsAreBounded(t *testing.T) {
	const selectorsMax = 256
	definitions, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			selectors, has := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["resourceSelectors"]
			if definition.Spec.Group != policyv1alpha1.GroupName || !has {
				continue
			}
			if found++; selectors.MaxItems == nil || *selectors.MaxItems != selectorsMax {
				t.Errorf("%s may have %v resourceSelectors, want at most %d", definition.Name, selectors.MaxItems, selectorsMax)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d kinds of policies were found, want 4", found)
	}
}
