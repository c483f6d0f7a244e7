// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func gv(name string, resources ...string) servedGroupVersion {
	s := servedGroupVersion{groupVersion: name}
	for _, r := range resources {
		s.resources = append(s.resources, servedResource{name: r, kind: "K" + r})
	}
	return s
}

func stale(s servedGroupVersion) servedGroupVersion {
	s.stale = true
	return s
}

func told(name string, resources ...string) fleetv1alpha1.APIEnablement {
	e := fleetv1alpha1.APIEnablement{GroupVersion: name}
	for _, r := range resources {
		e.Resources = append(e.Resources, fleetv1alpha1.APIResource{Name: r, Kind: "K" + r})
	}
	return e
}

func TestWhatIsToldOfTheAPIs(t *testing.T) {
	type list = []fleetv1alpha1.APIEnablement
	core, apps := gv("v1", "pods"), gv("apps/v1", "deployments")
	known := list{told("apps/v1", "deployments"), told("gone/v1", "x"), told("metrics/v1", "nodes"), told("v1", "old")}
	many := []servedGroupVersion{core}
	for i := range groupVersionsMax {
		many = append(many, gv(fmt.Sprintf("g%03d/v1", i), "x"))
	}
	var flood servedGroupVersion
	flood.groupVersion = "v1"
	for i := range resourcesMax {
		flood.resources = append(flood.resources, servedResource{name: fmt.Sprintf("r%05d", i), kind: "K"})
	}
	long := []servedGroupVersion{core}
	for i := range namesBytesMax / nameBytesMax / 2 {
		resource := servedResource{name: fmt.Sprintf("%0*d", nameBytesMax, i), kind: strings.Repeat("K", nameBytesMax)}
		long = append(long, servedGroupVersion{groupVersion: fmt.Sprintf("a%03d/v1", i), resources: []servedResource{resource}})
	}
	cases := map[string]struct {
		why            string
		found          []servedGroupVersion
		failed         []string
		want           list
		reason, saying string
	}{
		"everything": {
			why: "in order, each once, and what is gone is gone", found: []servedGroupVersion{core, gv("apps/v1", "b", "a", "a"), core},
			want: list{told("apps/v1", "a", "b"), told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonComplete, saying: "all",
		},
		"a group whose server does not answer": {
			why: "what was known of it is kept", found: []servedGroupVersion{core, stale(gv("metrics/v1"))},
			want: list{told("metrics/v1", "nodes"), told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "metrics/v1",
		},
		"such a group that nothing was known of": {
			why: "there is nothing to list", found: []servedGroupVersion{core, stale(gv("new/v1"))},
			want: list{told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "new/v1",
		},
		"such a group that the API server remembers": {
			why: "it knows it better", found: []servedGroupVersion{core, stale(gv("metrics/v1", "pods"))},
			want: list{told("metrics/v1", "pods"), told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "metrics/v1",
		},
		"no groups": {
			why: "all of them are kept", found: []servedGroupVersion{core}, failed: []string{"/apis"},
			want: list{known[0], known[1], known[2], told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "/apis",
		},
		"no core": {
			why: "it is kept", found: []servedGroupVersion{apps}, failed: []string{"/api"},
			want: list{known[0], known[3]}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "/api",
		},
		"nothing":         {why: "all is kept", want: known, reason: fleetv1alpha1.ClusterConnectionReasonEmpty, saying: "previous list is kept"},
		"nothing for now": {why: "all is kept", found: []servedGroupVersion{core}, failed: []string{"/api", "/apis"}, want: known, reason: fleetv1alpha1.ClusterConnectionReasonEmpty, saying: "previous list is kept"},
		"names that nobody has": {
			why: "a cluster may not fill the hub", found: []servedGroupVersion{gv("v1", "pods", "", strings.Repeat("x", nameBytesMax+1)), gv(strings.Repeat("g", nameBytesMax)+"/v1", "x")},
			want: list{told("v1", "pods")}, reason: fleetv1alpha1.ClusterConnectionReasonComplete, saying: "all",
		},
		"too many resources": {
			why: "a cluster may not fill the hub", found: []servedGroupVersion{apps, flood},
			want: list{told("apps/v1", "deployments")}, reason: fleetv1alpha1.ClusterConnectionReasonPartial, saying: "serves 2 groups and versions, only 1 are listed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, condition := mergeEnablements(known, tc.found, tc.failed)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if condition.Reason != tc.reason || !strings.Contains(condition.Message, tc.saying) {
				t.Errorf("the condition is %+v, want reason %s and %q", condition, tc.reason, tc.saying)
			}
		})
	}
	if got, condition := mergeEnablements(nil, many, nil); len(got) != groupVersionsMax || condition.Reason != fleetv1alpha1.ClusterConnectionReasonPartial {
		t.Errorf("%d groups and versions are told, with %+v", len(got), condition)
	}
	if got, condition := mergeEnablements(nil, long, nil); len(got) == 0 || len(got) >= len(long) || condition.Reason != fleetv1alpha1.ClusterConnectionReasonPartial {
		t.Errorf("%d of %d long groups and versions are told, with %+v", len(got), len(long), condition)
	}
}
