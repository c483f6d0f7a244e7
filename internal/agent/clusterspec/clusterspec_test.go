// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

func TestDesiredLabels(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	for name, c := range map[string]struct {
		klusterlet, hub, want labels
		// before and after are the keys that the annotation has.
		before, after string
	}{
		"new ones":                             {labels{"b": "2", "a": "1"}, nil, labels{"a": "1", "b": "2"}, "", "a,b"},
		"those of the hub stay":                {labels{"a": "1"}, labels{"env": "prod"}, labels{"a": "1", "env": "prod"}, "", "a"},
		"what was changed on the hub is back":  {labels{"a": "1"}, labels{"a": "mine"}, labels{"a": "1"}, "a", "a"},
		"one that is named no more goes":       {labels{"a": "1"}, labels{"a": "1", "b": "2"}, labels{"a": "1"}, "a,b", "a"},
		"all go, and the annotation with them": {nil, labels{"b": "2", "env": "prod"}, labels{"env": "prod"}, "b", ""},
		"a cluster set is not for agents": {
			labels{clusterv1.LabelClusterSet: "other"}, labels{clusterv1.LabelClusterSet: "prod"}, labels{clusterv1.LabelClusterSet: "prod"}, "", "",
		},
		"nor is its removal": {
			nil, labels{clusterv1.LabelClusterSet: "prod"}, labels{clusterv1.LabelClusterSet: "prod"}, clusterv1.LabelClusterSet, "",
		},
	} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: c.hub}}
		if c.before != "" {
			mc.Annotations = map[string]string{AnnotationLabels: c.before}
		}
		got := (&Part{Labels: c.klusterlet}).desired(mc)
		if diff := cmp.Diff(c.want, got.Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if keys, has := got.Annotations[AnnotationLabels]; keys != c.after || has != (c.after != "") {
			t.Errorf("%s: the annotation is %q, want %q", name, keys, c.after)
		}
		if again := (&Part{Labels: c.klusterlet}).desired(got); !cmp.Equal(got, again) {
			t.Errorf("%s: a second time it differs:\n%s", name, cmp.Diff(got, again))
		}
	}
}

func TestDesiredClientConfigs(t *testing.T) {
	t.Parallel()
	mine, theirs := []clusterv1.ClientConfig{{URL: "https://mine"}}, []clusterv1.ClientConfig{{URL: "https://theirs"}}
	mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: theirs}}
	if got := (&Part{ClientConfigs: mine}).desired(mc); !cmp.Equal(mine, got.Spec.ManagedClusterClientConfigs) {
		t.Errorf("got %v, want those of the member", got.Spec.ManagedClusterClientConfigs)
	}
	if got := (&Part{}).desired(mc); !cmp.Equal(theirs, got.Spec.ManagedClusterClientConfigs) {
		t.Errorf("without any of its own: got %v, want those of the hub", got.Spec.ManagedClusterClientConfigs)
	}
}
