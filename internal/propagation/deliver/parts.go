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
	"github.com/capstan-io/capstan/internal/propagation/decision"
)

// partClusters is how many clusters have their works made at a time.
const partClusters = 64

// RenderWorks returns the works of a binding by cluster, and the problems of those
// clusters that cannot get one, as RenderCopies does.
func RenderWorks(s WorkSource) (works map[string]*workv1.ManifestWork, problems map[string]error, err error) {
	works = map[string]*workv1.ManifestWork{}
	problems = map[string]error{}
	for part, err := range RenderBatches(s) {
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(works, part.Works)
		maps.Copy(problems, part.Problems)
	}
	return works, problems, nil
}

// RenderedBatch is what RenderWorks returns, for some of the clusters.
type RenderedBatch struct {
	Works    map[string]*workv1.ManifestWork
	Problems map[string]error
}

// RenderBatches returns what RenderWorks returns, for at most 64 clusters at a time, in the order of
// names. A part is made when it is asked for. After an error there is none.
func RenderBatches(s WorkSource) iter.Seq2[RenderedBatch, error] {
	return func(yield func(RenderedBatch, error) bool) {
		dispatch := decision.DecideDispatch(s.Binding.BindingSpec())
		part := RenderedBatch{Works: map[string]*workv1.ManifestWork{}, Problems: map[string]error{}}
		for cluster, one := range s.renderOutcomes() {
			if len(part.Works)+len(part.Problems) == partClusters {
				if !yield(part, nil) {
					return
				}
				part = RenderedBatch{Works: map[string]*workv1.ManifestWork{}, Problems: map[string]error{}}
			}
			if one.problem != nil {
				part.Problems[cluster] = one.problem
				continue
			}
			work := s.newWorkFrame(cluster, one.Applied, dispatch)
			if err := s.fillManifests(work, one.Object); err != nil {
				yield(RenderedBatch{}, err)
				return
			}
			part.Works[cluster] = work
		}
		yield(part, nil)
	}
}

// fillManifests puts the object, as its cluster gets it, into a work.
func (s WorkSource) fillManifests(work *workv1.ManifestWork, object *unstructured.Unstructured) error {
	stampOrigin(object, work, s.Object)
	for _, object := range []*unstructured.Unstructured{object, clusterRoleForKind(object)} {
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
