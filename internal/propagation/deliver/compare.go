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
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// annotationContent has the hash of the manifests of a work in the cache, where
// it stands for them. It is never written to the hub.
const annotationContent = "fleet.capstan.io/content"

// annotationSuspends tells that it is the binding which says whether the work is
// suspended, and not somebody who has suspended the one work.
const annotationSuspends = "fleet.capstan.io/binding-suspends"

// textMax is how many bytes of a label or an annotation of a work are kept in the cache.
const textMax = 1024

// SlimWork returns what is kept of a work in a cache: the hash of its manifests and what
// allowance.WorkBytes counts in the place of these, and of its metadata what is read. All else is whatever the member
// likes, and would fill the memory. It is a transform of caches, without which CompareWorks
// does not work, and may be given again what it has returned. The status is left as it
// is.
func SlimWork(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	hash := work.Annotations[annotationContent]
	if hash == "" || len(work.Spec.Workload.Manifests) > 0 { // an agent may write the annotation, too
		var err error
		if hash, err = hashOf(work); err != nil {
			hash = err.Error() // it differs from any hash, and is mended
		}
	}
	slim := &workv1.ManifestWork{
		TypeMeta: work.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion, Generation: work.Generation,
			CreationTimestamp: work.CreationTimestamp, DeletionTimestamp: work.DeletionTimestamp,
			Labels: filterMetadata(work.Labels, keptLabels()), Annotations: filterMetadata(work.Annotations, keptAnnotations()),
		},
		Status: work.Status,
	}
	slim.Annotations[annotationContent], slim.Annotations[allowance.AnnotationBytes] = shortenValue(hash), strconv.FormatInt(allowance.WorkBytes(work), 10)
	if option := work.Spec.DeleteOption; option != nil {
		slim.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: option.PropagationPolicy, TTLSecondsAfterFinished: option.TTLSecondsAfterFinished}
		if option.SelectivelyOrphans != nil { // which we never write
			slim.Spec.DeleteOption.SelectivelyOrphans = &workv1.SelectivelyOrphan{}
		}
	}
	return slim, nil
}

// keptLabels are the keys of the labels of works that are read.
func keptLabels() []string {
	return append(ownLabels(), workv1alpha2.LabelResourceBindingID, workv1alpha2.LabelClusterResourceBindingID, LabelNamespace, workv1.LabelManifestWorkReplicaSet)
}

// keptAnnotations are the keys of the annotations of works that are read.
func keptAnnotations() []string {
	return []string{
		workv1alpha2.AnnotationResourceBindingNamespace, workv1alpha2.AnnotationResourceBindingName, workv1alpha2.AnnotationClusterResourceBindingName,
		policyv1alpha1.AnnotationAppliedOverrides, policyv1alpha1.AnnotationAppliedClusterOverrides,
		annotationSuspends, annotationWritten, workv1.AnnotationSuspendDispatching,
		fleetv1alpha1.AnnotationRevision, fleetv1alpha1.AnnotationRevisionSince, fleetv1alpha1.AnnotationTraceparent,
	}
}

// filterMetadata returns those of the labels or annotations that have one of the keys, as short.
func filterMetadata(all map[string]string, keys []string) map[string]string {
	kept := map[string]string{}
	for _, key := range keys {
		if value, has := all[key]; has {
			kept[key] = shortenValue(value)
		}
	}
	return kept
}

// shortenValue returns a text, or the hash of one that is longer than textMax.
func shortenValue(text string) string {
	if len(text) <= textMax {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// hashOf returns a hash of the manifests, the same however they were written.
func hashOf(work *workv1.ManifestWork) (string, error) {
	hash := sha256.New()
	for _, manifest := range work.Spec.Workload.Manifests {
		canonical, err := allowance.CanonicalManifest(manifest.Raw)
		if err != nil {
			return "", fmt.Errorf("reading the manifest of work %q: %w", work.Name, err)
		}
		hash.Write(canonical)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// WorkChanges are what has to be done for the works of a binding to be right.
type WorkChanges struct {
	New     []*workv1.ManifestWork
	Changed []WorkChange
	Gone    []workv1.ManifestWork
	// Preserve says that what the works delivered which are gone stays in the clusters.
	Preserve bool
}

// IsEmpty reports whether there is nothing to do.
func (c WorkChanges) IsEmpty() bool { return len(c.New)+len(c.Changed)+len(c.Gone) == 0 }

// AllowanceWrites returns what the works have, and are to have, that are to be written. Of new ones, those are repairs that
// are made again, as somebody else has deleted them.
func (c WorkChanges) AllowanceWrites(isMadeAgain func(*workv1.ManifestWork) bool) (all []allowance.WorkWrite) {
	for _, work := range c.New {
		write := allowance.WriteOf(work, nil)
		write.Repairs = isMadeAgain(work)
		all = append(all, write)
	}
	for _, change := range c.Changed {
		write := allowance.WriteOf(change.Wanted, change.Present)
		write.Repairs = change.IsRepair()
		all = append(all, write)
	}
	return all
}

// WithoutHeld returns the changes without the writes that are held back.
func (c WorkChanges) WithoutHeld(held allowance.HeldWorks) WorkChanges {
	c.New = slices.DeleteFunc(c.New, func(work *workv1.ManifestWork) bool { return held.Clusters[work.Namespace] != nil })
	c.Changed = slices.DeleteFunc(c.Changed, func(change WorkChange) bool { return held.Clusters[change.Wanted.Namespace] != nil })
	return c
}

// WorkChange is a work as it is in the cache, and as it is to be.
type WorkChange struct {
	Present, Wanted *workv1.ManifestWork
}

// CompareWorks compares the works that are wanted, by cluster, with those that there
// are, from a cache with SlimWork. Works of clusters with a problem stay as they
// are.
func CompareWorks(wanted map[string]*workv1.ManifestWork, present []workv1.ManifestWork, problems map[string]error) (WorkChanges, error) {
	var c WorkChanges
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
			right, err := isWorkCurrent(is, want)
			if err != nil {
				return WorkChanges{}, err
			}
			if !right {
				if want, err = markWritten(want); err != nil {
					return WorkChanges{}, err
				}
				c.Changed = append(c.Changed, WorkChange{Present: is, Wanted: want})
			}
		}
		has[is.Namespace] = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(wanted)) {
		if !has[cluster] {
			work, err := markWritten(wanted[cluster])
			if err != nil {
				return WorkChanges{}, err
			}
			c.New = append(c.New, work)
		}
	}
	slices.SortFunc(c.Changed, func(a, b WorkChange) int { return strings.Compare(a.Present.Namespace, b.Present.Namespace) })
	return c, nil
}

// WorkHasContent reports whether a work, as SlimWork leaves it, has the content of another one.
func WorkHasContent(is, want *workv1.ManifestWork) (bool, error) {
	hash, err := hashOf(want)
	return err == nil && is.Annotations[annotationContent] == hash, err
}

// isWorkCurrent reports whether a work is as it is wanted.
func isWorkCurrent(is, want *workv1.ManifestWork) (bool, error) {
	hash, err := hashOf(want)
	if err != nil {
		return false, err
	}
	return is.Annotations[annotationContent] == hash && equality.Semantic.DeepEqual(is.Spec.DeleteOption, want.Spec.DeleteOption) &&
		len(diffMetadata(is.Labels, want.Labels, ownLabels())) == 0 && len(diffMetadata(is.Annotations, want.Annotations, ownAnnotations(is))) == 0, nil
}

// MergePatch returns the merge patch that makes a work as it is wanted.
func (c WorkChange) MergePatch() ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": c.Present.UID, "labels": diffMetadata(c.Present.Labels, c.Wanted.Labels, ownLabels()),
			"annotations": diffMetadata(c.Present.Annotations, c.Wanted.Annotations, ownAnnotations(c.Present)),
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

// diffMetadata returns the new value of each key that has to change, nil for one
// that goes. Values that the cache has shortened are equal if their hashes are.
func diffMetadata(has, wants map[string]string, own []string) map[string]any {
	changes := map[string]any{}
	for key, value := range wants {
		if present, is := has[key]; !is || present != shortenValue(value) {
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
