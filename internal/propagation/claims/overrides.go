// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// DependentOverridesMax is how many override policies a policy may wait for. The hub finds
// the policies that wait by each of these names, which takes a hundred times the name.
const DependentOverridesMax = 256

// CheckDependentOverrides returns what is wrong with a policy that waits for more: it is not
// applied. Path is that of its spec.
func CheckDependentOverrides(spec *policyv1alpha1.PropagationSpec, path *field.Path) field.ErrorList {
	names := len(spec.DependentOverrides)
	if names <= DependentOverridesMax {
		return nil
	}
	mistake := field.TooMany(path.Child("dependentOverrides"), names, DependentOverridesMax)
	mistake.Detail += ": the policy waits for each of them; name fewer, or put their rules into fewer override policies"
	return field.ErrorList{mistake}
}
