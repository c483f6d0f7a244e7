// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func testWorkload() Workload {
	return Workload{
		ResourceMeta: ResourceMeta{Name: "w", Namespace: "ns", Labels: map[string]string{"made-by": "test"}},
		App:          "w", ServiceAccount: "sa", Image: "image", Args: []string{"/run"}, Replicas: 1, HealthPort: 8000,
		Env:       []*corev1ac.EnvVarApplyConfiguration{EnvValue("A", "1")},
		Resources: DefaultedResources("", nil),
	}
}

func TestUnchangedSeesEveryDriftAndNothingElse(t *testing.T) {
	containers := []string{"spec", "template", "spec", "containers"}
	tests := map[string]struct {
		reason string
		change func(t *testing.T, live map[string]any)
		want   bool
	}{
		"AsApplied": {
			reason: "nothing changed", want: true,
			change: func(*testing.T, map[string]any) {},
		},
		"Defaulted": {
			reason: "fields that we do not want anything of are not ours", want: true,
			change: func(t *testing.T, live map[string]any) {
				set(t, live, int64(10), "spec", "revisionHistoryLimit")
			},
		},
		"SidecarOfOthers": {
			reason: "containers are merged by name", want: true,
			change: func(t *testing.T, live map[string]any) {
				list, _, _ := unstructured.NestedSlice(live, containers...)
				set(t, live, append([]any{map[string]any{"name": "mesh"}}, list...), containers...)
			},
		},
		"OtherReplicas": {
			reason: "a value that we want differs",
			change: func(t *testing.T, live map[string]any) { set(t, live, int64(7), "spec", "replicas") },
		},
		"ArgumentAdded": {
			reason: "the list of arguments is ours as a whole",
			change: func(t *testing.T, live map[string]any) {
				list, _, _ := unstructured.NestedSlice(live, containers...)
				list[0].(map[string]any)["args"] = []any{"/run", "--evil"}
				set(t, live, list, containers...)
			},
		},
		"ContainerLost": {
			reason: "what we want is not there",
			change: func(t *testing.T, live map[string]any) { set(t, live, []any{}, containers...) },
		},
		"OtherHash": {
			reason: "something else was wanted before, perhaps a field that is wanted no more",
			change: func(t *testing.T, live map[string]any) {
				set(t, live, "other", "metadata", "annotations", HashAnnotation)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			desired, err := StampAppliedHash(testWorkload().RenderDeployment())
			expect.NoError(t, err)
			live := desired.DeepCopy()
			tc.change(t, live.Object)
			if got := isUnchanged(desired, live); got != tc.want {
				t.Errorf("got %t, want %t: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func set(t *testing.T, object map[string]any, value any, path ...string) {
	t.Helper()
	expect.NoError(t, unstructured.SetNestedField(object, value, path...))
}

func TestEmptySelectorIsNotCoveredByANarrowOne(t *testing.T) {
	if coversValue("", map[string]any{}, map[string]any{"matchLabels": map[string]any{"a": "b"}}) {
		t.Error("someone narrowed a selector and nothing would repair it")
	}
	if !coversValue("", map[string]any{}, nil) {
		t.Error("an absent empty map is as good as an empty one")
	}
}

func TestResourcesFollowTheRequirement(t *testing.T) {
	given := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	tests := map[string]struct {
		reason, kind       string
		given              *corev1.ResourceRequirements
		requested, limited bool
	}{
		"Unset":            {reason: "small requests", requested: true},
		"Default":          {reason: "small requests", kind: "Default", given: given, requested: true},
		"BestEffort":       {reason: "nothing", kind: "BestEffort", given: given},
		"Given":            {reason: "what is given", kind: "ResourceRequirement", given: given, limited: true},
		"GivenWithNothing": {reason: "nothing given is the default", kind: "ResourceRequirement", requested: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := DefaultedResources(tc.kind, tc.given)
			if (len(got.Requests) > 0) != tc.requested || (len(got.Limits) > 0) != tc.limited {
				t.Errorf("%s: got %+v", tc.reason, got)
			}
		})
	}
}

func TestQuantitiesAreWrittenAsTheServerStoresThem(t *testing.T) {
	got := canonicalQuantities(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")})
	cpu := got[corev1.ResourceCPU]
	if cpu.String() != "1" {
		t.Errorf("1000m is written as %q", cpu.String())
	}
}

func TestPruneRemovesOnlyWhatIsOursAndNotKept(t *testing.T) {
	account := func(name, owner string) client.Object {
		sa := &corev1.ServiceAccount{}
		sa.Name, sa.Namespace, sa.Labels = name, "ns", map[string]string{"made-by": owner}
		return sa
	}
	scheme := runtime.NewScheme()
	expect.NoError(t, clientgoscheme.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).
		WithObjects(account("kept", "us"), account("old", "us"), account("foreign", "them")).Build()
	a := NewApplier(c, c, "us")
	kind := corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	keep := []AppliedRecord{{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Kind: kind.Kind, Namespace: "ns", Name: "kept"}}
	scope := PruneScope{Labels: map[string]string{"made-by": "us"}}
	scope.Kinds = append(scope.Kinds, kind, rbacv1.SchemeGroupVersion.WithKind("Role"))
	found, err := a.Prune(t.Context(), scope, keep)
	expect.NoError(t, err)
	if len(found) != 1 || found[0].Name != "old" {
		t.Errorf("pruned %+v, want the old one", found)
	}
	list := &corev1.ServiceAccountList{}
	expect.NoError(t, c.List(t.Context(), list))
	if len(list.Items) != 2 {
		t.Errorf("%d are left, want 2", len(list.Items))
	}
	if _, err := a.Prune(t.Context(), PruneScope{Kinds: scope.Kinds}, nil); err == nil {
		t.Error("without labels everything of the kinds would go")
	}
}
