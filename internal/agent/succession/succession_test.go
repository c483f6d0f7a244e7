// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package succession

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestAnAgentGoesOnWhereTheOneBeforeLeftOff(t *testing.T) {
	const outside, inside = "https://hub.example.com:6443", "https://10.96.0.1:443"
	cases := map[string]struct {
		reason           string
		annotations      map[string]string
		joined           bool
		url, predecessor string
		news             bool
		doubted          bool // it asks the hub whether it still has its permissions
	}{
		"the first agent": {
			reason: "nobody has said anything, so its own URL counts", url: inside, news: true,
		},
		"the same agent": {
			reason: "nothing changes", joined: true, url: inside,
			annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: inside, fleetv1alpha1.AnnotationAgentID: "me"},
		},
		"the same agent at another URL": {
			reason: "what it applied is marked with the first URL", joined: true, url: outside,
			annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: outside, fleetv1alpha1.AnnotationAgentID: "me"},
		},
		"another agent": {
			reason: "it takes over what that one applied", joined: true, url: outside, predecessor: "other", news: true,
			annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: outside, fleetv1alpha1.AnnotationAgentID: "other"},
		},
		"another agent of a cluster that has never joined": {
			reason: "whoever made the object has written what he liked", url: inside, doubted: true, news: true,
			annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: outside, fleetv1alpha1.AnnotationAgentID: "other"},
		},
		"the same agent of a cluster that has never joined": {
			reason: "it has noted itself as it asked to join", url: inside,
			annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: inside, fleetv1alpha1.AnnotationAgentID: "me"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			if c.joined {
				mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue}}
			}
			url, predecessor := inheritHubURL(mc, inside, "me")
			if url != c.url || predecessor != c.predecessor {
				t.Errorf("%s: URL %q, predecessor %q; want %q, %q", c.reason, url, predecessor, c.url, c.predecessor)
			}
			if HasSuccessor(mc, "me") != (c.predecessor != "" || c.doubted) {
				t.Errorf("%s: Succeeded is %t", c.reason, HasSuccessor(mc, "me"))
			}
			if news := signCluster(mc, url, "me"); news != c.news {
				t.Errorf("%s: writing it down is news: %t, want %t", c.reason, news, c.news)
			}
			if after, _ := inheritHubURL(mc, inside, "me"); after != url || HasSuccessor(mc, "me") {
				t.Errorf("%s: after it was written down, the URL is %q", c.reason, after)
			}
		})
	}
}
