// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

func TestAKindIsUsedWhileItHasABinding(t *testing.T) {
	used := map[string]string{}
	bound := newBoundKinds(func(user string, kinds ...schema.GroupVersionKind) {
		if len(kinds) == 0 {
			delete(used, user)
			return
		}
		used[user] = kinds[0].Kind
	})
	of := func(kind string) workv1alpha2.Binding {
		return &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{Resource: workv1alpha2.ObjectReference{APIVersion: "v1", Kind: kind}}}
	}
	for _, step := range []struct {
		what          string
		before, after workv1alpha2.Binding
		want          string
	}{
		{"the first", nil, of("Secret"), "Secret"},
		{"a second", nil, of("Secret"), "Secret"},
		{"one of another kind", nil, of("Service"), "Secret Service"},
		{"one is gone", of("Secret"), nil, "Secret Service"},
		{"one changes", of("Service"), of("Service"), "Secret Service"},
		{"one changes its kind", of("Service"), of("Secret"), "Secret"},
		{"another is gone", of("Secret"), nil, "Secret"},
		{"the last is gone", of("Secret"), nil, ""},
	} {
		bound.recordBinding(step.before, step.after)
		if got := strings.Join(slices.Sorted(maps.Values(used)), " "); got != step.want {
			t.Errorf("%s: %q is used, want %q", step.what, got, step.want)
		}
	}
}
