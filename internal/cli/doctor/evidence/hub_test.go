// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
)

// saying returns the settings of an API server that says this at its paths: an object, a
// text, or a status code. It has no other paths.
func saying(answers map[string]any) *rest.Config {
	return &rest.Config{Host: "http://hub.example.com", Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
		code, body := http.StatusOK, []byte{}
		switch answer := answers[request.URL.Path].(type) {
		case nil:
			code = http.StatusNotFound
		case int:
			code = answer
		case string:
			body = []byte(answer)
		default:
			var err error
			if body, err = json.Marshal(answer); err != nil {
				return nil, err
			}
		}
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request}, nil
	})}
}

// groups are what an API server says that serves the kinds of a hub, but those that are left out.
func groups(t *testing.T, without ...string) (answers map[string]any, versions int) {
	t.Helper()
	definitions, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	answers = map[string]any{}
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			versions++
			path := "/apis/" + d.Spec.Group + "/" + v.Name
			list, _ := answers[path].(metav1.APIResourceList)
			if !slices.Contains(without, d.Spec.Names.Kind) {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: d.Spec.Names.Plural})
			}
			answers[path] = list
		}
	}
	return answers, versions
}

func TestTheKindsThatAHubServes(t *testing.T) {
	t.Parallel()
	const work = "/apis/work.open-cluster-management.io/v1"
	for name, c := range map[string]struct {
		without []string
		change  func(answers map[string]any)
		missing []string
		wrong   string
	}{
		"all":                     {},
		"all but some":            {without: []string{"Placement", "ManagedCluster"}, missing: []string{"ManagedCluster", "Placement"}},
		"a group is not known":    {change: func(a map[string]any) { delete(a, work) }, missing: []string{"ManifestWork"}},
		"a group may not be read": {change: func(a map[string]any) { a[work] = http.StatusForbidden }, wrong: "ask which kinds of work.open-cluster-management.io/v1 there are"},
		"an answer that is none":  {change: func(a map[string]any) { a[work] = "nonsense" }, wrong: "understand which kinds of work.open-cluster-management.io/v1 there are"},
	} {
		answers, versions := groups(t, c.without...)
		if c.change != nil {
			c.change(answers)
		}
		raw, err := rawClient(saying(answers))
		if err != nil {
			t.Fatal(err)
		}
		known, missing, err := missingHubKinds(t.Context(), raw)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: the error is %v", name, err)
			}
			continue
		}
		if diff := cmp.Diff(c.missing, missing); diff != "" || err != nil {
			t.Errorf("%s: missing (-want +got, %v):\n%s", name, err, diff)
		}
		if known >= versions != (len(c.missing) == 0) {
			t.Errorf("%s: %d of %d are known", name, known, versions)
		}
	}
}

func TestTheVersionOfAnAPIServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer any
		want   string
		wrong  bool
	}{
		"a version":              {answer: map[string]any{"gitVersion": "v1.37.2"}, want: "v1.37.2"},
		"a page of a web server": {answer: "<html>", wrong: true},
		"no right":               {answer: http.StatusForbidden, wrong: true},
		"nothing":                {wrong: true},
	} {
		raw, err := rawClient(saying(map[string]any{"/version": c.answer}))
		if err != nil {
			t.Fatal(err)
		}
		got := serverVersion(t.Context(), raw)
		if got.Value != c.want || got.Found == c.wrong || (got.Err != nil) != c.wrong {
			t.Errorf("%s: it is %+v", name, got)
		}
	}
}

// TestTheFleetHasOfEachClusterWhatIsItsOwn, and of what cannot be read the reason.
func TestTheFleetHasOfEachClusterWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	const (
		clusters    = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
		connections = "/apis/fleet.capstan.io/v1alpha1/clusterconnections"
		leases      = "/apis/coordination.k8s.io/v1/leases"
		works       = "/apis/work.open-cluster-management.io/v1/manifestworks"
	)
	hub := func() map[string]any {
		return map[string]any{
			clusters:    clusterv1.ManagedClusterList{Items: []clusterv1.ManagedCluster{{ObjectMeta: objectMetaFor("", "a")}, {ObjectMeta: objectMetaFor("", "b")}}},
			connections: fleetv1alpha1.ClusterConnectionList{Items: []fleetv1alpha1.ClusterConnection{{ObjectMeta: objectMetaFor("", "b")}, {ObjectMeta: objectMetaFor("", "stray")}}},
			leases:      coordinationv1.LeaseList{Items: []coordinationv1.Lease{{ObjectMeta: objectMetaFor("a", clusterv1.LeaseName)}, {ObjectMeta: objectMetaFor("stray", clusterv1.LeaseName)}}},
			works: workv1.ManifestWorkList{Items: []workv1.ManifestWork{
				{ObjectMeta: objectMetaFor("b", "one")}, {ObjectMeta: objectMetaFor("a", "two")}, {ObjectMeta: objectMetaFor("b", "three")}, {ObjectMeta: objectMetaFor("stray", "four")},
			}},
		}
	}
	told := func(got Reading[[]*ClusterEvidence]) (all []string) {
		for _, c := range got.Value {
			line := c.Name + ":"
			for what, r := range map[string]struct{ found, failed bool }{
				" 1 connection": {c.Connection.Found, c.Connection.Err != nil}, " 2 lease": {c.Lease.Found, c.Lease.Err != nil}, " 3 works": {c.Works.Found, c.Works.Err != nil},
			} {
				if r.found {
					all = append(all, line+what)
				}
				if r.failed {
					all = append(all, line+what+" failed")
				}
			}
			for i := range c.Works.Value.Items {
				all = append(all, line+" "+c.Works.Value.Items[i].Name)
			}
		}
		slices.Sort(all)
		return all
	}
	for name, c := range map[string]struct {
		path   string
		answer any
		want   []string
	}{
		"all can be read":           {want: []string{"a: 2 lease", "a: 3 works", "a: two", "b: 1 connection", "b: 3 works", "b: one", "b: three"}},
		"leases may not be read":    {leases, http.StatusForbidden, []string{"a: 2 lease failed", "a: 3 works", "a: two", "b: 1 connection", "b: 2 lease failed", "b: 3 works", "b: one", "b: three"}},
		"works may not be read":     {works, http.StatusForbidden, []string{"a: 2 lease", "a: 3 works failed", "b: 1 connection", "b: 3 works failed"}},
		"connections are not known": {connections, http.StatusNotFound, []string{"a: 2 lease", "a: 3 works", "a: two", "b: 3 works", "b: one", "b: three"}},
	} {
		answers := hub()
		if c.path != "" {
			answers[c.path] = c.answer
		}
		got, err := GatherFleet(t.Context(), saying(answers))
		if err != nil || !got.Found {
			t.Errorf("%s: %+v (%v)", name, got, err)
		}
		if diff := cmp.Diff(c.want, told(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	answers := hub()
	answers[clusters] = http.StatusForbidden
	if got, err := GatherFleet(t.Context(), saying(answers)); err != nil || got.Found || got.Err == nil {
		t.Errorf("of clusters that may not be read there is %+v (%v)", got, err)
	}
}
