// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/demand"
)

// revisionBytes is how long the hash is that names a revision.
const revisionBytes = 16

// Revisions names what each cluster is sent by a hash of it, whatever the number
// of replicas. Clusters that cannot be sent anything have none.
func Revisions(s Source) (map[string]string, error) {
	all := map[string]string{}
	made := map[string]string{}
	if s.Mistake != nil {
		return all, nil //nolint:nilerr // whoever makes the works tells of it
	}
	object, err := s.even()
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
		rules := s.Overrides.RulesFor(&cluster)
		if _, done := made[rules]; !done {
			if made[rules], err = s.revision(object, &cluster); err != nil {
				return nil, err
			}
		}
		if made[rules] != "" {
			all[target.Name] = made[rules]
		}
	}
	return all, nil
}

// revision returns the hash of what a cluster is sent, "" if it cannot be sent anything:
// whoever makes the works tells of that. It is of the object as policies leave it, before it gets
// the form in which the hub stores it: the hash is compared with others of its kind alone, and one
// that came to be another with a new version of Capstan would begin every rollout again.
func (s Source) revision(even *unstructured.Unstructured, cluster *view.Cluster) (string, error) {
	one, _, problem := s.Overrides.Apply(even, cluster)
	if problem != nil {
		return "", nil //nolint:nilerr // as above
	}
	forget(one) // not before: policies may be about annotations of a template that has only these
	s.settle(one)
	text, err := one.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("encoding %s %q for cluster %q: %w", one.GetKind(), one.GetName(), cluster.Name, err)
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:revisionBytes]), nil
}

// Even returns the object as it is sent, but with one replica if it has any: what
// does not differ if only the number of replicas does.
func (s Source) Even() (*unstructured.Unstructured, error) {
	object, err := s.even()
	if err != nil {
		return nil, err
	}
	forget(object)
	return object, nil
}

// forget takes from an object what others note on it for themselves: kubectl notes
// all of what was applied last, with the number of replicas.
func forget(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, demand.AnnotationTemplate)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

// even returns the same with what others note on it.
func (s Source) even() (*unstructured.Unstructured, error) {
	pruned := s.Chain.Prune(s.Object)
	if len(s.Binding.BindingSpec().Components) == 0 {
		revised, err := s.Chain.Revise(pruned, 1)
		if err != nil {
			return nil, fmt.Errorf("changing the replicas of %s %q: %w", pruned.GetKind(), pruned.GetName(), err)
		}
		pruned = revised
	}
	if _, divided := completions(s.Binding, s.Chain, pruned, []workv1alpha2.TargetCluster{{}}); divided {
		pruned = s.Chain.ReviseCompletions(pruned, 1)
	}
	return pruned, nil
}
