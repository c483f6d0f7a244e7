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

// ClusterRevisions names what each cluster is sent by a hash of it, whatever the number
// of replicas. Clusters that cannot be sent anything have none.
func ClusterRevisions(s WorkSource) (map[string]string, error) {
	all := map[string]string{}
	made := map[string]string{}
	if s.Mistake != nil {
		return all, nil //nolint:nilerr // whoever makes the works tells of it
	}
	object, err := s.singleReplicaTemplate()
	if err != nil {
		return nil, err
	}
	for _, target := range BindingTargets(s.Binding.BindingSpec()) {
		if s.Only != nil && !s.Only[target.Name] {
			continue
		}
		cluster, found := s.Fleet.ClusterNamed(target.Name)
		if !found {
			cluster = view.Cluster{Name: target.Name}
		}
		rules := s.Overrides.RulesFor(&cluster)
		if _, done := made[rules]; !done {
			if made[rules], err = s.hashRevision(object, &cluster); err != nil {
				return nil, err
			}
		}
		if made[rules] != "" {
			all[target.Name] = made[rules]
		}
	}
	return all, nil
}

// hashRevision returns the hash of what a cluster is sent, "" if it cannot be sent anything:
// whoever makes the works tells of that. It is of the object as policies leave it, before it gets
// the form in which the hub stores it: the hash is compared with others of its kind alone, and one
// that came to be another with a new version of Capstan would begin every rollout again.
func (s WorkSource) hashRevision(even *unstructured.Unstructured, cluster *view.Cluster) (string, error) {
	one, _, problem := s.Overrides.ApplyToObject(even, cluster)
	if problem != nil {
		return "", nil //nolint:nilerr // as above
	}
	stripBookkeeping(one) // not before: policies may be about annotations of a template that has only these
	s.setConflictResolution(one)
	text, err := one.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("encoding %s %q for cluster %q: %w", one.GetKind(), one.GetName(), cluster.Name, err)
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:revisionBytes]), nil
}

// SingleReplicaObject returns the object as it is sent, but with one replica if it has any: what
// does not differ if only the number of replicas does.
func (s WorkSource) SingleReplicaObject() (*unstructured.Unstructured, error) {
	object, err := s.singleReplicaTemplate()
	if err != nil {
		return nil, err
	}
	stripBookkeeping(object)
	return object, nil
}

// stripBookkeeping takes from an object what others note on it for themselves: kubectl notes
// all of what was applied last, with the number of replicas.
func stripBookkeeping(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, demand.AnnotationTemplate)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

// singleReplicaTemplate returns the same with what others note on it.
func (s WorkSource) singleReplicaTemplate() (*unstructured.Unstructured, error) {
	pruned := s.Chain.PruneObject(s.Object)
	if len(s.Binding.BindingSpec().Components) == 0 {
		revised, err := s.Chain.ReviseReplicas(pruned, 1)
		if err != nil {
			return nil, fmt.Errorf("changing the replicas of %s %q: %w", pruned.GetKind(), pruned.GetName(), err)
		}
		pruned = revised
	}
	if _, divided := divideCompletions(s.Binding, s.Chain, pruned, []workv1alpha2.TargetCluster{{}}); divided {
		pruned = s.Chain.ReviseCompletions(pruned, 1)
	}
	return pruned, nil
}
