// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestReferencesLeadToWhatFluxTakes refers to what Flux refuses: the hub reads what is
// referred to, which the user who writes the object may not be allowed.
func TestReferencesLeadToWhatFluxTakes(t *testing.T) {
	t.Parallel()
	const flux = "source.toolkit.fluxcd.io/"
	for name, c := range map[string]struct{ version, kind, want string }{
		"a source":                         {"", "Bucket", flux + "v1 Bucket"},
		"one of another version":           {flux + "v1beta2", "OCIRepository", flux + "v1beta2 OCIRepository"},
		"another group":                    {"v1", "GitRepository", flux + "v1 GitRepository"},
		"a group that begins the same way": {"source.toolkit.fluxcd.io.example.com/v1", "GitRepository", flux + "v1 GitRepository"},
		"a Secret":                         {"v1", "Secret", ""},
		"a kind that is none of a source":  {flux + "v1", "ExternalThing", ""},
	} {
		source := m{"apiVersion": c.version, "kind": c.kind, "name": "a"}
		for kind, spec := range map[schema.GroupVersionKind]m{
			{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}: {"sourceRef": source},
			{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}:        {"chartRef": source},
		} {
			t.Run(name+" of a "+kind.Kind, func(t *testing.T) {
				t.Parallel()
				needed, err := shipped.NewThirdPartyKinds().Operations(kind).Custom.Dependencies(m{
					"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": m{"namespace": "shop", "name": "a"}, "spec": spec,
				})
				expect.NoError(t, err)
				got := ""
				for _, d := range needed {
					got += fmt.Sprint(d.APIVersion, " ", d.Kind)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
