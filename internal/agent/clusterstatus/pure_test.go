// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

func claim(name string, labels map[string]string) clusterv1alpha1.ClusterClaim {
	return clusterv1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "v"},
	}
}

func TestReservedClaimsComeFirstAndCustomOnesAreLimited(t *testing.T) {
	rules := ClaimRules{CustomMax: 2, ReservedSuffixes: []string{".reserved"}}
	got := rules.selectClaims([]clusterv1alpha1.ClusterClaim{
		claim("c", nil), claim("a", nil), claim("b", nil), claim("x.reserved", nil), claim(clusterv1alpha1.ClaimID, nil),
		claim("private", map[string]string{clusterv1.LabelSpokeOnly: ""}),
		{ObjectMeta: metav1.ObjectMeta{Name: "0-empty"}},
	}, "uid")
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{clusterv1alpha1.ClaimID, "x.reserved", "a", "b"}, names); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestClaimsHaveNoMoreThanTheHubTakes has a member make claims that a guard of the hub refuses, which would keep it from all of its status,
// and which are hundreds of megabytes as JSON.
func TestClaimsHaveNoMoreThanTheHubTakes(t *testing.T) {
	valued := func(name, value string) clusterv1alpha1.ClusterClaim {
		made := claim(name, nil)
		made.Spec.Value = value
		return made
	}
	rules := ClaimRules{CustomMax: 5000, ReservedSuffixes: []string{".reserved"}}
	for name, c := range map[string]struct {
		value, suffix string
		told, atLeast int
	}{
		"of a megabyte":            {value: strings.Repeat("&", 1<<20)},
		"as long as the hub takes": {value: strings.Repeat("v", claimLengthMax), told: claimsBytesMax / claimLengthMax, atLeast: 200},
		"six bytes each":           {value: strings.Repeat("&", claimLengthMax), told: claimsBytesMax / claimLengthMax / 6, atLeast: 40},
		"two bytes each":           {value: strings.Repeat(`"`, claimLengthMax), told: claimsBytesMax / claimLengthMax / 2, atLeast: 100},
		"short":                    {value: "v", told: claimsMax - 1, atLeast: claimsMax},
		"short and reserved":       {value: "v", suffix: ".reserved", told: claimsMax - 1, atLeast: claimsMax},
		"of a long name":           {value: "v", suffix: strings.Repeat("n", nameLengthMax)},
	} {
		list := []clusterv1alpha1.ClusterClaim{claim(clusterv1alpha1.ClaimID, nil)}
		for i := range 3000 {
			list = append(list, valued(fmt.Sprintf("%04d%s", i, c.suffix), c.value))
		}
		got := rules.selectClaims(list, "uid")
		if len(got) > c.told+1 || len(got) < c.atLeast {
			t.Errorf("%s: %d claims are told, want at least %d and at most %d, and the identity", name, len(got), c.atLeast, c.told)
		}
		text, err := json.Marshal(got)
		if limit := claimsBytesMax + len(got)*len(`{"name":"","value":""},`); err != nil || len(text) > limit+2 {
			t.Errorf("%s: they are %d bytes as JSON, want at most %d: %v", name, len(text), limit, err)
		}
	}
}

func TestAFailedProbeHasToPersist(t *testing.T) {
	start := time.Unix(0, 0)
	h := probedHealth{}.afterProbe(start, nil)
	if !h.known || !h.healthy || h.next != start.Add(probeEvery) {
		t.Fatalf("after a probe that succeeded: %+v", h)
	}
	failure := errors.New("etcd is away")
	for _, at := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second} {
		if h = h.afterProbe(start.Add(at), failure); !h.healthy || h.next != start.Add(at+probeAgain) {
			t.Fatalf("after %v of failures: %+v, want it healthy and probed again in 5 s", at, h)
		}
	}
	if h = h.afterProbe(start.Add(persist), failure); h.healthy || !h.known || h.problem != failure.Error() {
		t.Fatalf("after 20 s of failures: %+v, want it unhealthy", h)
	}
	if h = h.afterProbe(start.Add(persist+probeAgain), nil); !h.healthy || !h.failing.IsZero() {
		t.Fatalf("after it came back: %+v", h)
	}
	if h := (probedHealth{}).afterProbe(start, failure); h.known {
		t.Errorf("after one failure at the start: %+v, want nothing to be known", h)
	}
}

func TestTheIdentityIsAClaimUnlessTheClusterHasItsOwn(t *testing.T) {
	identity := func(value string) []clusterv1.ManagedClusterClaim {
		return []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: value}}
	}
	private := map[string]string{clusterv1.LabelSpokeOnly: ""}
	cases := map[string]struct {
		reason string
		list   []clusterv1alpha1.ClusterClaim
		id     string
		want   []clusterv1.ManagedClusterClaim
	}{
		"no claims":            {reason: "every cluster can be recognised", id: "uid", want: identity("uid")},
		"a claim of that name": {reason: "it says what the cluster wants to be called", id: "uid", list: []clusterv1alpha1.ClusterClaim{claim(clusterv1alpha1.ClaimID, nil)}, want: identity("v")},
		"a private claim":      {reason: "the cluster does not want it to be told", id: "uid", list: []clusterv1alpha1.ClusterClaim{claim(clusterv1alpha1.ClaimID, private)}},
		"nobody knows":         {reason: "the agent may not read the namespace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ClaimRules{}.selectClaims(tc.list, tc.id)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAPropertyGoesBeforeAClaimOfTheSameName(t *testing.T) {
	property := func(name, value string, labels map[string]string) aboutv1alpha1.ClusterProperty {
		return aboutv1alpha1.ClusterProperty{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: aboutv1alpha1.ClusterPropertySpec{Value: value},
		}
	}
	long := strings.Repeat("ä", claimLengthMax)
	cases := map[string]struct {
		reason     string
		properties []aboutv1alpha1.ClusterProperty
		want       []clusterv1.ManagedClusterClaim
	}{
		"none": {"claims are told as ever", nil, []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}, {Name: "b", Value: "v"}}},
		"of another name": {
			"both are told",
			[]aboutv1alpha1.ClusterProperty{property("a", "p", nil)},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}, {Name: "a", Value: "p"}, {Name: "b", Value: "v"}},
		},
		"of the same name": {
			"the property is told",
			[]aboutv1alpha1.ClusterProperty{property("b", "p", nil)},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}, {Name: "b", Value: "p"}},
		},
		"the identity": {
			"it has the name that is reserved for it",
			[]aboutv1alpha1.ClusterProperty{property(clusterv1alpha1.ClaimID, "me", nil)},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "me"}, {Name: "b", Value: "v"}},
		},
		"private": {
			"neither it nor the claim that it hides is told",
			[]aboutv1alpha1.ClusterProperty{property("b", "p", map[string]string{clusterv1.LabelSpokeOnly: ""})},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}},
		},
		"as long as the hub takes": {
			"it counts characters, not bytes",
			[]aboutv1alpha1.ClusterProperty{property("b", long, nil)},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}, {Name: "b", Value: long}},
		},
		"too long for the hub": {
			"one that the hub refuses would keep it from all others",
			[]aboutv1alpha1.ClusterProperty{property("b", long+"ä", nil)},
			[]clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "uid"}, {Name: "b", Value: "v"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ClaimRules{CustomMax: 20}.selectClaims(withProperties([]clusterv1alpha1.ClusterClaim{claim("b", nil)}, c.properties), "uid")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}
