// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// unsaidError says that whoever customizes a kind does not say what to apply. The
// object stays as it is: what of it is the cluster's would be lost.
type unsaidError struct{ err error }

func (e *unsaidError) Error() string {
	return "The object is left as it is in the cluster, because the fields to retain could not be determined. " + interpret.ErrorSentences(e.err)
}
func (e *unsaidError) Unwrap() error { return e.err }

// retention applies an object as a customization says by the one that is in the
// cluster.
//
// What it says is desired and observed put together. To apply all of it would make
// what was observed our own: the cluster's controllers would be in conflict with us,
// or we would write again what they have changed in between. So fields that have
// their value from the cluster are left out, as those are that are retained by what
// is known of a kind; and the server refuses the rest if the object has changed since
// it was observed.
type retention struct{ of *object }

// prepareRetained asks the customization if the object exists, and gives up what is left to
// the cluster.
func (r *retention) prepareRetained(ctx context.Context, manager string, stamp *apply.Stamp) error {
	o := r.of
	if err := o.keepContent(ctx); err != nil {
		return err
	}
	observed, err := o.Member.ReadObject(ctx, o.want.Resource.Version, o.want.Object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	seen := meta.AsPartialObjectMetadata(observed)
	if o.want.Yields && !o.isOwnedByRecord() && !(encounter{of: o}).belongsToWork(ctx, seen) {
		return nil // which is found out next
	}
	content, err := o.manifestContent(ctx)
	if err != nil {
		return err
	}
	made, err := o.Interpret.RetainFields(&unstructured.Unstructured{Object: content}, observed)
	if err != nil {
		return &unsaidError{err: err}
	}
	r.cleanMetadata(made.Object, content, stamp)
	paths := retainedPaths(made.Object, content, observed.Object, o.history.Kept)
	if seen, err = r.disownRetained(ctx, seen, manager, made.Object, &paths); err != nil {
		return err
	}
	if o.made, err = json.Marshal(made.Object); err != nil {
		return fmt.Errorf("encoding what a customization returned: %w", err)
	}
	observed.SetResourceVersion(seen.ResourceVersion)
	observed.SetManagedFields(seen.ManagedFields)
	stamp.Without = paths
	o.history.Kept = paths
	o.seen = observed
	return nil
}

// cleanMetadata takes out of what the customization returned what is not its to say: what the
// server or we ourselves write into the metadata of an object.
func (r *retention) cleanMetadata(made, desired map[string]any, stamp *apply.Stamp) {
	metadata, _ := made["metadata"].(map[string]any)
	wanted, _ := desired["metadata"].(map[string]any)
	for key := range metadata {
		switch key {
		case "labels", "annotations", "finalizers":
		default:
			delete(metadata, key)
		}
	}
	for key, value := range wanted {
		if _, has := metadata[key]; !has && key != "labels" && key != "annotations" && key != "finalizers" {
			metadata[key] = value
		}
	}
	if labels, is := metadata["labels"].(map[string]any); is {
		delete(labels, stamp.Label)
	}
	if annotations, is := metadata["annotations"].(map[string]any); is {
		delete(annotations, workv1.AnnotationAdopted)
		for key := range stamp.Annotations {
			delete(annotations, key)
		}
	}
}

// disownRetained gives up what we own of what is left to the cluster. Of what the API treats
// as one value nothing can be left out: then all is applied, as it was observed.
func (r *retention) disownRetained(
	ctx context.Context, seen *metav1.PartialObjectMetadata, manager string, made map[string]any, paths *[]ignore.Path,
) (*metav1.PartialObjectMetadata, error) {
	after, err := r.of.disownFields(ctx, seen, manager, made, *paths)
	if errors.Is(err, ignore.ErrExpression) {
		*paths = nil
		return seen, nil
	}
	return after, err
}

// retainedPaths returns the paths of what is as in the cluster and not as the manifest has it,
// in order. What was left to the cluster before is so, too, if it is still the same
// there: a value that happens to be that of the manifest does not become ours.
func retainedPaths(made, desired, observed map[string]any, before []ignore.Path) []ignore.Path {
	paths := differingPaths(nil, made, desired, observed)
	for _, path := range before {
		is, has := valueAtPath(made, path)
		there, had := valueAtPath(observed, path)
		known := slices.ContainsFunc(paths, func(other ignore.Path) bool {
			return len(other) <= len(path) && reflect.DeepEqual(other, path[:len(other)])
		})
		if has && had && !known && reflect.DeepEqual(is, there) {
			paths = append(paths, path)
		}
	}
	return paths
}

func differingPaths(path ignore.Path, made, desired, observed map[string]any) (paths []ignore.Path) {
	for _, key := range slices.Sorted(maps.Keys(made)) {
		is := made[key]
		there, had := observed[key]
		if !had {
			continue
		}
		wanted, wants := desired[key]
		below := append(slices.Clone(path), key)
		inner, map1 := is.(map[string]any)
		innerThere, map2 := there.(map[string]any)
		innerWanted, map3 := wanted.(map[string]any)
		switch {
		case map1 && map2 && map3:
			paths = append(paths, differingPaths(below, inner, innerWanted, innerThere)...)
		case reflect.DeepEqual(is, there):
			if !wants || !reflect.DeepEqual(is, wanted) {
				paths = append(paths, below)
			}
		case map1 && map2:
			paths = append(paths, differingPaths(below, inner, nil, innerThere)...)
		}
	}
	return paths
}

// valueAtPath returns what is at a path of names.
func valueAtPath(object map[string]any, path ignore.Path) (value any, has bool) {
	value = object
	for _, step := range path {
		inner, is := value.(map[string]any)
		if !is {
			return nil, false
		}
		name, _ := step.(string)
		if value, has = inner[name]; !has {
			return nil, false
		}
	}
	return value, has
}

// asSent returns the object in the cluster if it is known to be as it would be if the
// body were applied: that was sent last, too, and nothing of it is different there. It
// is asked only of kinds that are customized: their objects are looked at whenever
// the customization or the object changes, and that is not to write to them.
func (o *object) asSent(ctx context.Context, hash apply.ManifestHash, body []byte) (*metav1.PartialObjectMetadata, error) {
	if !o.Plan.Options.Interpreted || !o.want.IsCustomized() || hash != o.history.Sent {
		return nil, nil
	}
	if err := o.keepContent(ctx); err != nil {
		return nil, err
	}
	if o.seen == nil {
		seen, err := o.Member.ReadObject(ctx, o.want.Resource.Version, o.want.Object)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // whoever applies it finds out why
		}
		o.seen = seen
	}
	want, err := apply.NormalizedContent(ctx, body)
	if err != nil || !containsAll(o.seen.Object, want) {
		return nil, err
	}
	same := meta.AsPartialObjectMetadata(o.seen)
	o.spared = true
	o.storeWritten(same)
	return same, nil
}

// containsAll reports whether an object has all that another one has. Lists are equal, but
// for what their items have besides.
func containsAll(have, want any) bool {
	switch wanted := want.(type) {
	case map[string]any:
		had, is := have.(map[string]any)
		for key, value := range wanted {
			if inner, has := had[key]; value != nil && (!is || !has || !containsAll(inner, value)) {
				return false
			}
		}
		return is
	case []any:
		had, is := have.([]any)
		if !is || len(had) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !containsAll(had[i], wanted[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(have, want)
	}
}
