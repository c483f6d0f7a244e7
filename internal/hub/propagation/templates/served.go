// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// absentMin is for how long the hub has to say that it has no such kind before the
// objects of the kind count as deleted. Their definition may be replaced, or the
// hub may just have been started.
const absentMin = 5 * time.Minute

// served tells whether the hub serves a kind in any version: if it does not in the
// one that is asked for, its objects exist all the same.
func served(of discovery.ServerResourcesInterface, kind schema.GroupKind) (bool, error) {
	groups, _, err := of.ServerGroupsAndResources()
	if groups == nil {
		return false, fmt.Errorf("asking the hub what it serves: %w", err)
	}
	at := slices.IndexFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == kind.Group })
	if at < 0 {
		return false, nil
	}
	for _, version := range groups[at].Versions {
		list, err := of.ServerResourcesForGroupVersion(version.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("asking the hub what it serves as %s: %w", version.GroupVersion, err)
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			return true, nil
		}
	}
	return false, nil
}
