// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// alike are the manifests of an Ingress and of four objects, each of which differs from
// it in one of group, kind, namespace and name.
func alike() []workv1.Manifest {
	var manifests []workv1.Manifest
	for _, m := range [][4]string{
		{"networking.k8s.io/v1", "Ingress", "shop", "web"},
		{"v1", "Ingress", "shop", "web"},
		{"networking.k8s.io/v1", "Route", "shop", "web"},
		{"networking.k8s.io/v1", "Ingress", "bank", "web"},
		{"networking.k8s.io/v1", "Ingress", "shop", "api"},
	} {
		raw := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q}}`, m[0], m[1], m[2], m[3])
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return manifests
}

// options returns what a spec says of the objects that are alike, of those of which it
// says something: how they are applied, whether something is asked about them, and what
// becomes of them when the work is deleted.
func options(t *testing.T, spec workv1.ManifestWorkSpec) []string {
	t.Helper()
	work := &workv1.ManifestWork{Spec: spec}
	work.Spec.Workload.Manifests = alike()
	p := FromManifests(work, nil)
	expect.NoError(t, p.ResolveItems(t.Context(), p.Items, work, KindFinder{Find: func(kind schema.GroupVersionKind) (apply.Resource, error) {
		resource := map[string]string{"Ingress": "ingresses", "Route": "routes"}[kind.Kind]
		return apply.Resource{GroupVersionResource: kind.GroupVersion().WithResource(resource), Namespaced: true}, nil
	}}))
	var all []string
	for _, it := range p.Items {
		var said []string
		if it.Desired.Strategy == StrategyCreateOnly {
			said = append(said, "created only")
		}
		if it.Observation != nil {
			said = append(said, "asked about")
		}
		if DeletionFates(spec.DeleteOption)(it.Desired.Object) == FateOrphan {
			said = append(said, "orphaned")
		}
		if len(said) > 0 {
			all = append(all, fmt.Sprintf("%s.%s %s/%s is %s", it.Desired.Object.Resource, it.Desired.Object.Group, it.Desired.Object.Namespace, it.Desired.Object.Name, strings.Join(said, " and ")))
		}
	}
	return all
}

// Each field does something: without it, other objects are meant, or the same are treated
// in another way.
func TestFields(t *testing.T) {
	const (
		config = `{manifestConfigs: [{resourceIdentifier: {group: networking.k8s.io, resource: ingresses, namespace: shop, name: web},
			updateStrategy: {type: CreateOnly}, feedbackRules: [{type: WellKnownStatus}]}]}`
		orphans = `{deleteOption: {propagationPolicy: SelectivelyOrphan, selectivelyOrphans: {orphaningRules: [
			{group: networking.k8s.io, resource: ingresses, namespace: shop, name: web}]}}}`
	)
	configured, orphaned := "ingresses.networking.k8s.io shop/web is created only and asked about", "ingresses.networking.k8s.io shop/web is orphaned"
	for name, tc := range map[string]struct{ field, spec, want string }{
		"group of a config":     {"manifestConfigs[0].resourceIdentifier.group", config, configured},
		"resource of a config":  {"manifestConfigs[0].resourceIdentifier.resource", config, configured},
		"namespace of a config": {"manifestConfigs[0].resourceIdentifier.namespace", config, configured},
		"name of a config":      {"manifestConfigs[0].resourceIdentifier.name", config, configured},
		"strategy":              {"manifestConfigs[0].updateStrategy.type", config, configured},
		"feedback":              {"manifestConfigs[0].feedbackRules[0]", config, configured},

		"policy":                 {"deleteOption.propagationPolicy", orphans, orphaned},
		"group of an orphan":     {"deleteOption.selectivelyOrphans.orphaningRules[0].group", orphans, orphaned},
		"resource of an orphan":  {"deleteOption.selectivelyOrphans.orphaningRules[0].resource", orphans, orphaned},
		"namespace of an orphan": {"deleteOption.selectivelyOrphans.orphaningRules[0].namespace", orphans, orphaned},
		"name of an orphan":      {"deleteOption.selectivelyOrphans.orphaningRules[0].name", orphans, orphaned},
	} {
		t.Run(name, func(t *testing.T) {
			got := options(t, specs.ParseSpec[workv1.ManifestWorkSpec](t, tc.spec))
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if slices.Equal(got, options(t, specs.ParseWithout[workv1.ManifestWorkSpec](t, tc.spec, tc.field))) {
				t.Errorf("without spec.%s it says the same: %v", tc.field, got)
			}
		})
	}
}
