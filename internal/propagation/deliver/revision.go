// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/fleet/view"
)

// revisionBytes is how long the hash is that names a revision.
const revisionBytes = 16

// Revisions names what each cluster is sent by a hash of it, whatever the number
// of replicas. Clusters that cannot be sent anything have none.
func Revisions(s Source) (map[string]string, error) {
	all := map[string]string{}
	if s.Mistake != nil {
		return all, nil //nolint:nilerr // whoever makes the works tells of it
	}
	object, err := s.Even()
	if err != nil {
		return nil, err
	}
	for _, target := range Targets(s.Binding.BindingSpec()) {
		if s.Only != nil && !s.Only[target.Name] {
			continue
		}
		cluster, found := s.Fleet.Cluster(target.Name)
		if !found {
			cluster = view.Cluster{Name: target.Name}
		}
		one, _, problem := s.Overrides.Apply(object, &cluster)
		if problem != nil {
			continue // whoever makes the works tells of it
		}
		s.settle(one)
		text, err := one.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding %s %q for cluster %q: %w", one.GetKind(), one.GetName(), target.Name, err)
		}
		hash := sha256.Sum256(text)
		all[target.Name] = hex.EncodeToString(hash[:revisionBytes])
	}
	return all, nil
}

// Even returns the object as it is sent, but with one replica if it has any: what
// does not differ if only the number of replicas does.
func (s Source) Even() (*unstructured.Unstructured, error) {
	pruned := s.Chain.Prune(s.Object)
	if len(s.Binding.BindingSpec().Components) == 0 {
		revised, err := s.Chain.Revise(pruned, 1)
		if err != nil {
			return nil, fmt.Errorf("changing the replicas of %s %q: %w", pruned.GetKind(), pruned.GetName(), err)
		}
		pruned = revised
	}
	if _, divided := completions(s.Binding, s.Chain, pruned, "", []workv1alpha2.TargetCluster{{}}); divided {
		pruned = s.Chain.ReviseCompletions(pruned, 1)
	}
	return pruned, nil
}
