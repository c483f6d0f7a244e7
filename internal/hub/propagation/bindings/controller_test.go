// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWhatMayBeReadLaterIsNotLookedAt has the reasons why an object is not read: a
// rollout must not go on without it, unless that would be for ever.
func TestWhatMayBeReadLaterIsNotLookedAt(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no right to it":              {apierrors.NewForbidden(resource, "web", errors.New("no")), true},
		"no such kind":                {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}}, true},
		"the server is busy":          {apierrors.NewTooManyRequests("later", 1), false},
		"the server is broken":        {apierrors.NewInternalError(errors.New("etcd is away")), false},
		"the server is away":          {errors.New("connection refused"), false},
		"the server takes too long":   {apierrors.NewServerTimeout(resource, "get", 1), false},
		"its kind is not served just": {errors.New("the hub does not serve its kind"), false},
	} {
		if got := isUnreadable(fmt.Errorf("reading web: %w", test.err)); got != test.want {
			t.Errorf("%s: it counts as looked at: %t, want %t", name, got, test.want)
		}
	}
}
