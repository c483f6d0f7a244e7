// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// The hub learns the id from the cluster: who writes a Cluster need not know it, and
// cannot choose it.
func TestAnUpdateKeepsTheIDThatTheHubHasLearned(t *testing.T) {
	for name, c := range map[string]struct {
		learned, written, want string
		refused                bool
	}{
		"nobody knows it":         {want: ""},
		"it is left out":          {learned: "one", want: "one"},
		"it is sent back":         {learned: "one", written: "one", want: "one"},
		"it is written too early": {written: "mine", want: ""},
		"it is that of another":   {learned: "one", written: "two", want: "two", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterStrategy(nil, clock.RealClock{})
			before, after := clusterWithID(c.learned), clusterWithID(c.written)
			s.PrepareForUpdate(t.Context(), after, before)
			if after.Spec.ID != c.want {
				t.Errorf("its id becomes %q, want %q", after.Spec.ID, c.want)
			}
			if problems := s.ValidateUpdate(t.Context(), after, before); (len(problems) > 0) != c.refused {
				t.Errorf("it is refused for %v, want that it is refused: %t", problems, c.refused)
			}
		})
	}
}

func clusterWithID(id string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{SyncMode: v1alpha1.Pull, ID: id}}
}
