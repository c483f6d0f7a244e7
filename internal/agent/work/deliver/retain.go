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
	return "The object is left as it is in the cluster, since what to keep of it is not known. " + interpret.Tell(e.err)
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

// prepare asks the customization if the object exists, and gives up what is left to
// the cluster.
func (r *retention) prepare(ctx context.Context, manager string, stamp *apply.Stamp) error {
	o := r.of
	observed, err := o.Member.Read(ctx, o.item.Resource.Version, o.item.Object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	seen := meta.AsPartialObjectMetadata(observed)
	if o.item.Yields && !o.owned() && !(encounter{of: o}).belongs(ctx, seen) {
		return nil // which is found out next
	}
	content, err := o.content()
	if err != nil {
		return err
	}
	made, err := o.Interpret.Retain(&unstructured.Unstructured{Object: content}, observed)
	if err != nil {
		return &unsaidError{err: err}
	}
	r.clean(made.Object, content, stamp)
	paths := left(made.Object, content, observed.Object, o.item.Kept)
	if seen, err = r.giveUp(ctx, seen, manager, made.Object, &paths); err != nil {
		return err
	}
	if o.made, err = json.Marshal(made.Object); err != nil {
		return fmt.Errorf("encoding what a customization returned: %w", err)
	}
	observed.SetResourceVersion(seen.ResourceVersion)
	observed.SetManagedFields(seen.ManagedFields)
	stamp.Without = paths
	o.item.Kept = paths
	o.seen = observed
	return nil
}

// clean takes out of what the customization returned what is not its to say: what the
// server or we ourselves write into the metadata of an object.
func (r *retention) clean(made, desired map[string]any, stamp *apply.Stamp) {
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

// giveUp gives up what we own of what is left to the cluster. Of what the API treats
// as one value nothing can be left out: then all is applied, as it was observed.
func (r *retention) giveUp(
	ctx context.Context, seen *metav1.PartialObjectMetadata, manager string, made map[string]any, paths *[]ignore.Path,
) (*metav1.PartialObjectMetadata, error) {
	after, err := r.of.giveUp(ctx, seen, manager, made, *paths)
	if errors.Is(err, ignore.ErrExpression) {
		*paths = nil
		return seen, nil
	}
	return after, err
}

// left returns the paths of what is as in the cluster and not as the manifest has it,
// in order. What was left to the cluster before is so, too, if it is still the same
// there: a value that happens to be that of the manifest does not become ours.
func left(made, desired, observed map[string]any, before []ignore.Path) []ignore.Path {
	paths := differing(nil, made, desired, observed)
	for _, path := range before {
		is, has := at(made, path)
		there, had := at(observed, path)
		known := slices.ContainsFunc(paths, func(other ignore.Path) bool {
			return len(other) <= len(path) && reflect.DeepEqual(other, path[:len(other)])
		})
		if has && had && !known && reflect.DeepEqual(is, there) {
			paths = append(paths, path)
		}
	}
	return paths
}

func differing(path ignore.Path, made, desired, observed map[string]any) (paths []ignore.Path) {
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
			paths = append(paths, differing(below, inner, innerWanted, innerThere)...)
		case reflect.DeepEqual(is, there):
			if !wants || !reflect.DeepEqual(is, wanted) {
				paths = append(paths, below)
			}
		case map1 && map2:
			paths = append(paths, differing(below, inner, nil, innerThere)...)
		}
	}
	return paths
}

// at returns what is at a path of names.
func at(object map[string]any, path ignore.Path) (value any, has bool) {
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
func (o *object) asSent(ctx context.Context, hash apply.Hash, body []byte) (*metav1.PartialObjectMetadata, error) {
	if !o.Plan.OfBinding || !o.item.Customized() || hash != o.item.Sent {
		return nil, nil
	}
	if o.seen == nil {
		seen, err := o.Member.Read(ctx, o.item.Resource.Version, o.item.Object)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // whoever applies it finds out why
		}
		o.seen = seen
	}
	want, err := apply.Content(body)
	if err != nil || !contains(o.seen.Object, want) {
		return nil, err
	}
	same := meta.AsPartialObjectMetadata(o.seen)
	o.spared = true
	o.wrote(same)
	return same, nil
}

// contains tells whether an object has all that another one has. Lists are equal, but
// for what their items have besides.
func contains(have, want any) bool {
	switch wanted := want.(type) {
	case map[string]any:
		had, is := have.(map[string]any)
		for key, value := range wanted {
			if inner, has := had[key]; value != nil && (!is || !has || !contains(inner, value)) {
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
			if !contains(had[i], wanted[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(have, want)
	}
}
