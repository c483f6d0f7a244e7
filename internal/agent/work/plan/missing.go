// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// MissingDependencies is what items wait for: groups of definitions, and names of
// namespaces.
type MissingDependencies struct {
	Groups, Namespaces map[string]struct{}
	// Own says that the work itself brings all that is missing.
	Own bool
}

// MissingDependencies returns what the items wait for.
func (p *Plan) MissingDependencies() MissingDependencies {
	missing := MissingDependencies{Groups: map[string]struct{}{}, Namespaces: map[string]struct{}{}, Own: true}
	for _, it := range p.Items {
		problem := it.ObjectProblem()
		want := &it.Desired
		switch {
		case want.Refused != nil || problem.Trouble != apply.TroublePassing && problem.Trouble != apply.TroubleRaced:
		case problem.NoKind:
			missing.Groups[want.Manifest.Kind.Group] = struct{}{}
			missing.Own = missing.Own && p.bringsManifest("CustomResourceDefinition", func(name string) bool {
				return strings.HasSuffix(name, "."+want.Manifest.Kind.Group)
			})
		case problem.NoNamespace:
			missing.Namespaces[want.Object.Namespace] = struct{}{}
			missing.Own = missing.Own && p.bringsManifest("Namespace", func(name string) bool { return name == want.Object.Namespace })
		default:
			missing.Own = false
		}
	}
	return missing
}

// bringsManifest reports whether a manifest of the kind has such a name.
func (p *Plan) bringsManifest(kind string, named func(string) bool) bool {
	for _, it := range p.Items {
		if it.Desired.Refused == nil && it.Desired.Manifest.Kind.Kind == kind && named(it.Desired.Manifest.Name) {
			return true
		}
	}
	return false
}
