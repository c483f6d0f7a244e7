// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// annotationContent has the hash of the manifests of a work in the cache, where
// it stands for them. It is never written to the hub.
const annotationContent = "fleet.capstan.io/content"

// annotationSuspends tells that it is the binding which says whether the work is
// suspended, and not somebody who has suspended the one work.
const annotationSuspends = "fleet.capstan.io/binding-suspends"

// SlimWork replaces the manifests of a work with their hash. It is a transform of
// caches, without which Compare does not work.
func SlimWork(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok || work.Annotations[annotationContent] != "" {
		return obj, nil
	}
	work.ManagedFields = nil
	hash, err := hashOf(work)
	if err != nil {
		hash = err.Error() // it differs from any hash, and is mended
	}
	if work.Annotations == nil {
		work.Annotations = map[string]string{}
	}
	work.Annotations[annotationContent] = hash
	work.Spec.Workload.Manifests = nil
	return work, nil
}

// hashOf returns a hash of the manifests, the same however they were written.
func hashOf(work *workv1.ManifestWork) (string, error) {
	hash := sha256.New()
	for _, manifest := range work.Spec.Workload.Manifests {
		var content any
		if err := json.Unmarshal(manifest.Raw, &content); err != nil {
			return "", fmt.Errorf("reading the manifest of work %q: %w", work.Name, err)
		}
		canonical, err := json.Marshal(content)
		if err != nil {
			return "", fmt.Errorf("encoding the manifest of work %q: %w", work.Name, err)
		}
		hash.Write(canonical)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Changes are what has to be done for the works of a binding to be right.
type Changes struct {
	New     []*workv1.ManifestWork
	Changed []Change
	Gone    []workv1.ManifestWork
	// Preserve says that what the works delivered which are gone stays in the clusters.
	Preserve bool
}

// None tells whether there is nothing to do.
func (c Changes) None() bool { return len(c.New)+len(c.Changed)+len(c.Gone) == 0 }

// Change is a work as it is in the cache, and as it is to be.
type Change struct {
	Present, Wanted *workv1.ManifestWork
}

// Compare compares the works that are wanted, by cluster, with those that there
// are, from a cache with SlimWork. Works of clusters with a problem stay as they
// are.
func Compare(wanted map[string]*workv1.ManifestWork, present []workv1.ManifestWork, problems map[string]error) (Changes, error) {
	var c Changes
	has := map[string]bool{}
	for i := range present {
		is := &present[i]
		want := wanted[is.Namespace]
		switch {
		case problems[is.Namespace] != nil:
		case want == nil || want.Name != is.Name:
			if is.DeletionTimestamp.IsZero() {
				c.Gone = append(c.Gone, *is)
			}
			continue
		case !is.DeletionTimestamp.IsZero():
		default:
			right, err := same(is, want)
			if err != nil {
				return Changes{}, err
			}
			if !right {
				c.Changed = append(c.Changed, Change{Present: is, Wanted: want})
			}
		}
		has[is.Namespace] = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(wanted)) {
		if !has[cluster] {
			c.New = append(c.New, wanted[cluster])
		}
	}
	slices.SortFunc(c.Changed, func(a, b Change) int { return strings.Compare(a.Present.Namespace, b.Present.Namespace) })
	return c, nil
}

// Has tells whether a work, as SlimWork leaves it, has the content of another one.
func Has(is, want *workv1.ManifestWork) (bool, error) {
	hash, err := hashOf(want)
	return err == nil && is.Annotations[annotationContent] == hash, err
}

// same tells whether a work is as it is wanted.
func same(is, want *workv1.ManifestWork) (bool, error) {
	hash, err := hashOf(want)
	if err != nil {
		return false, err
	}
	return is.Annotations[annotationContent] == hash && equality.Semantic.DeepEqual(is.Spec.DeleteOption, want.Spec.DeleteOption) &&
		len(difference(is.Labels, want.Labels, ownLabels())) == 0 && len(difference(is.Annotations, want.Annotations, ownAnnotations(is))) == 0, nil
}

// Patch returns the merge patch that makes a work as it is wanted.
func (c Change) Patch() ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": c.Present.UID, "labels": difference(c.Present.Labels, c.Wanted.Labels, ownLabels()),
			"annotations": difference(c.Present.Annotations, c.Wanted.Annotations, ownAnnotations(c.Present)),
		},
		"spec": map[string]any{"workload": c.Wanted.Spec.Workload, "deleteOption": c.Wanted.Spec.DeleteOption},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the change of work %q: %w", c.Present.Namespace+"/"+c.Present.Name, err)
	}
	return body, nil
}

// ownLabels are the keys of labels that are removed if they are not wanted.
func ownLabels() []string { return append(claims.LabelKeys(), karmadaworkv1alpha1.LabelPermanentID) }

// ownAnnotations are the keys of annotations that are removed from a work if they
// are not wanted.
func ownAnnotations(is *workv1.ManifestWork) []string {
	keys := []string{
		policyv1alpha1.AnnotationAppliedOverrides, policyv1alpha1.AnnotationAppliedClusterOverrides, annotationSuspends,
		fleetv1alpha1.AnnotationRevision, fleetv1alpha1.AnnotationRevisionSince,
	}
	if is.Annotations[annotationSuspends] != "" {
		keys = append(keys, workv1.AnnotationSuspendDispatching)
	}
	return keys
}

// difference returns the new value of each key that has to change, nil for one
// that goes.
func difference(has, wants map[string]string, own []string) map[string]any {
	changes := map[string]any{}
	for key, value := range wants {
		if present, is := has[key]; !is || present != value {
			changes[key] = value
		}
	}
	for _, key := range own {
		if _, wanted := wants[key]; !wanted {
			if _, is := has[key]; is {
				changes[key] = nil
			}
		}
	}
	return changes
}
