// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
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
		got, withheld := (&SpecPart{Labels: c.klusterlet}).desiredCluster(mc)
		if diff := cmp.Diff(c.want, got.Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if keys, has := got.Annotations[AnnotationLabels]; keys != c.after || has != (c.after != "") {
			t.Errorf("%s: the annotation is %q, want %q", name, keys, c.after)
		}
		if len(withheld) > 0 {
			t.Errorf("%s: a hub without limits withholds %q", name, withheld)
		}
		if again, _ := (&SpecPart{Labels: c.klusterlet}).desiredCluster(got); !cmp.Equal(got, again) {
			t.Errorf("%s: a second time it differs:\n%s", name, cmp.Diff(got, again))
		}
	}
}

func TestWithheldLabels(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	for name, c := range map[string]struct {
		allowed               string
		klusterlet, hub, want labels
		// before and after are the keys that the annotation has.
		before, after string
		withheld      []string
	}{
		"nothing is allowed":             {"", labels{"a": "1"}, nil, nil, "", "", []string{"a"}},
		"nothing has to change":          {"", labels{"a": "1"}, labels{"a": "1"}, labels{"a": "1"}, "a", "a", nil},
		"one is allowed":                 {"a", labels{"a": "1", "b": "2"}, labels{"b": "0"}, labels{"a": "1", "b": "0"}, "", "a", []string{"b"}},
		"one that may not go stays ours": {"", nil, labels{"a": "1"}, labels{"a": "1"}, "a", "a", []string{"a"}},
		"one that is gone is forgotten":  {"", nil, nil, nil, "a", "", nil},
		"another value is not ours":      {"", labels{"a": "1"}, labels{"a": "2"}, labels{"a": "2"}, "a", "", []string{"a"}},
		"a set is not told": {
			"*", labels{clusterv1.LabelClusterSet: "other"}, labels{clusterv1.LabelClusterSet: "prod"}, labels{clusterv1.LabelClusterSet: "prod"}, "", "", nil,
		},
	} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Labels: c.hub, Annotations: map[string]string{AnnotationLabels: c.before, fleetv1alpha1.AnnotationAgentLabels: c.allowed},
		}}
		got, withheld := (&SpecPart{Labels: c.klusterlet}).desiredCluster(mc)
		if diff := cmp.Diff(c.want, got.Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.withheld, withheld); diff != "" || got.Annotations[AnnotationLabels] != c.after {
			t.Errorf("%s: the annotation is %q, want %q; withheld are (-want +got):\n%s", name, got.Annotations[AnnotationLabels], c.after, diff)
		}
	}
}

func TestDesiredClientConfigs(t *testing.T) {
	t.Parallel()
	mine, theirs := []clusterv1.ClientConfig{{URL: "https://mine"}}, []clusterv1.ClientConfig{{URL: "https://theirs"}}
	mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: theirs}}
	if got, _ := (&SpecPart{ClientConfigs: mine}).desiredCluster(mc); !cmp.Equal(mine, got.Spec.ManagedClusterClientConfigs) {
		t.Errorf("got %v, want those of the member", got.Spec.ManagedClusterClientConfigs)
	}
	if got, _ := (&SpecPart{}).desiredCluster(mc); !cmp.Equal(theirs, got.Spec.ManagedClusterClientConfigs) {
		t.Errorf("without any of its own: got %v, want those of the hub", got.Spec.ManagedClusterClientConfigs)
	}
}
