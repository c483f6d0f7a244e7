// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// minorMin is the first minor version of Kubernetes whose API server reads the
// configuration that it gets.
const minorMin = 34

// VersionProblem says why a control plane cannot be brought from one version of
// Kubernetes to another, and what to do instead; empty if it can. A new one comes
// from the empty version.
func VersionProblem(from, to string) string {
	wanted, err := version.ParseSemantic(to)
	switch {
	case err != nil:
		return fmt.Sprintf("%q is not a version", to)
	case wanted.Minor() < minorMin:
		return fmt.Sprintf("%s is not supported: set v1.%d or later", to, minorMin)
	case from == "":
		return ""
	}
	present, err := version.ParseSemantic(from)
	switch {
	case err != nil:
		return ""
	case wanted.Minor() > present.Minor()+1:
		return fmt.Sprintf("%s is more than one minor version after %s: upgrade to v1.%d first", to, from, present.Minor()+1)
	case wanted.Minor() < present.Minor():
		return fmt.Sprintf("%s is an older minor version than %s, which may have stored what it cannot read: set v1.%d", to, from, present.Minor())
	default:
		return ""
	}
}
