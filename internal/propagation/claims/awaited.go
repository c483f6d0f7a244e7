// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// DependentOverridesMax is how many override policies a policy may wait for. The hub finds
// the policies that wait by each of these names, which takes a hundred times the name.
const DependentOverridesMax = 256

// CheckAwaitedNames returns what is wrong with a policy that waits for more, or for what has a longer
// name than anything has: it is not applied. Each object that it selects tells of what is missing, by
// name. Path is that of its spec.
func CheckAwaitedNames(spec *policyv1alpha1.PropagationSpec, path *field.Path) field.ErrorList {
	overrides := path.Child("dependentOverrides")
	if names := len(spec.DependentOverrides); names > DependentOverridesMax {
		mistake := field.TooMany(overrides, names, DependentOverridesMax)
		mistake.Detail += ": the policy waits for each of them; name fewer, or put their rules into fewer override policies"
		return field.ErrorList{mistake}
	}
	for i, name := range spec.DependentOverrides {
		if len(name) > validation.DNS1123SubdomainMaxLength {
			return field.ErrorList{tooLongName(overrides.Index(i), "no override policy has such a name")} // one is enough
		}
	}
	if asked := spec.SchedulePriority; asked != nil && len(asked.PriorityClassName) > validation.DNS1123SubdomainMaxLength {
		return field.ErrorList{tooLongName(path.Child("schedulePriority", "priorityClassName"), "no PriorityClass has such a name")}
	}
	return nil
}

// tooLongName says that a name is too long, without it.
func tooLongName(path *field.Path, why string) *field.Error {
	mistake := field.TooLong(path, "", validation.DNS1123SubdomainMaxLength)
	mistake.Detail += ": " + why
	return mistake
}
