// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// partClusters is how many clusters have their works made at a time.
const partClusters = 64

// Render returns the works of a binding by cluster, and the problems of those
// clusters that cannot get one, as Copies does.
func Render(s Source) (works map[string]*workv1.ManifestWork, problems map[string]error, err error) {
	works = map[string]*workv1.ManifestWork{}
	problems = map[string]error{}
	for part, err := range Parts(s) {
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(works, part.Works)
		maps.Copy(problems, part.Problems)
	}
	return works, problems, nil
}

// Part is what Render returns, for some of the clusters.
type Part struct {
	Works    map[string]*workv1.ManifestWork
	Problems map[string]error
}

// Parts returns what Render returns, for at most 64 clusters at a time, in the order of
// names. A part is made when it is asked for. After an error there is none.
func Parts(s Source) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		suspends := suspensionOf(s.Binding.BindingSpec().Suspension)
		part := Part{Works: map[string]*workv1.ManifestWork{}, Problems: map[string]error{}}
		for cluster, one := range s.outcomes() {
			if len(part.Works)+len(part.Problems) == partClusters {
				if !yield(part, nil) {
					return
				}
				part = Part{Works: map[string]*workv1.ManifestWork{}, Problems: map[string]error{}}
			}
			if one.problem != nil {
				part.Problems[cluster] = one.problem
				continue
			}
			work := s.frame(cluster, one.Applied, suspends)
			if err := s.fill(work, one.Object); err != nil {
				yield(Part{}, err)
				return
			}
			part.Works[cluster] = work
		}
		yield(part, nil)
	}
}

// fill puts the object, as its cluster gets it, into a work.
func (s Source) fill(work *workv1.ManifestWork, object *unstructured.Unstructured) error {
	stamp(object, work, s.Object)
	for _, object := range []*unstructured.Unstructured{object, role(object)} {
		if object == nil {
			continue
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding %s %q for cluster %q: %w", object.GetKind(), object.GetName(), work.Namespace, err)
		}
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return nil
}
