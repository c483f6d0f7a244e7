// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// Fate is what is to become of an object that the work owns.
type Fate uint8

// The fates.
const (
	FateKeep Fate = iota
	FateDelete
	FateOrphan // it stays, and is not ours any more
	FateMove   // it stays, and belongs to the keeper
	// FateUnknown: it stays until it is known what is to become of it.
	FateUnknown
)

// Fates says what is to become of objects.
type Fates func(apply.ObjectRef) Fate

// Leftover is an object that has to go and is still there.
type Leftover struct {
	Object  apply.ObjectRef
	Problem apply.ObjectProblem
	// The following are of an object that is being deleted: what keeps it, and
	// since when, in seconds since 1970.
	Finalizers []string
	Since      int64
}

// ObjectFates tells what the plan says about objects that the work had.
func (p *Plan) ObjectFates() Fates {
	fates := map[apply.ObjectRef]Fate{}
	unknown := map[string]bool{} // groups with kinds whose objects cannot be told from others
	for _, it := range p.Items {
		switch {
		case !it.IsResolved() && it.Desired.Manifest.Kind.Kind != "":
			unknown[it.Desired.Manifest.Kind.Group] = true
		case it.Desired.ReadOnly:
			fates[it.Desired.Object] = FateOrphan
		default:
			fates[it.Desired.Object] = FateKeep
		}
	}
	return func(object apply.ObjectRef) Fate {
		if f, wanted := fates[object]; wanted {
			return f
		}
		if unknown[object.Group] {
			return FateKeep
		}
		return FateDelete
	}
}

// DeletionFates tells what happens to objects when their work is deleted.
func DeletionFates(option *workv1.DeleteOption) Fates {
	return func(object apply.ObjectRef) Fate {
		if option == nil {
			return FateDelete
		}
		switch option.PropagationPolicy {
		case workv1.DeletePropagationPolicyOrphan:
			return FateOrphan
		case workv1.DeletePropagationPolicySelectivelyOrphan:
			if option.SelectivelyOrphans != nil && slices.ContainsFunc(option.SelectivelyOrphans.OrphaningRules,
				func(rule workv1.OrphaningRule) bool { return matchesObject(workv1.ResourceIdentifier(rule), object) }) {
				return FateOrphan
			}
		case workv1.DeletePropagationPolicyForeground:
		}
		return FateDelete
	}
}

// VersionedObject is an object in the version that it is reached in.
type VersionedObject struct {
	apply.ObjectRef
	Version string
}

// ManifestObjects returns the objects of a work's manifests, as far as their kinds are
// known.
func ManifestObjects(work *workv1.ManifestWork, find func(schema.GroupVersionKind) (apply.Resource, error)) []VersionedObject {
	var objects []VersionedObject
	for _, it := range FromManifests(work, nil).Items {
		want := &it.Desired
		resource, err := find(want.Manifest.Kind)
		if want.Refused != nil || err != nil {
			continue
		}
		if want.resolveResource(resource, nil); want.Refused == nil {
			objects = append(objects, VersionedObject{ObjectRef: want.Object, Version: want.Resource.Version})
		}
	}
	return objects
}
