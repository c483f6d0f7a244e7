// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const aggregatedApps = `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
	{"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"subresources":[{"subresource":"scale"}]}]},
	{"version":"v2","freshness":"Stale"}]}]}`

// server is an API server that answers with what is in it, by path.
type server struct {
	bodies map[string]string
	// whole counts the answers that were not "not modified".
	whole int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, ok := s.bodies[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if strings.Contains(body, "APIGroupDiscoveryList") {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		w.Header().Set("Etag", `"`+body[len(body)-10:]+`"`)
		if r.Header.Get("If-None-Match") == w.Header().Get("Etag") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	s.whole++
	_, _ = w.Write([]byte(body))
}

func discoveryOf(t *testing.T, s *server) *discovery {
	t.Helper()
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	d, err := newDiscovery(&rest.Config{Host: front.URL}, front.Client())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *discovery) all() []served { return append(d.documents[0].found, d.documents[1].found...) }

func TestDiscoveryCostsNothingWhileNothingChanges(t *testing.T) {
	s := &server{bodies: map[string]string{"/api": `{"kind":"APIGroupDiscoveryList","items":[]}`, "/apis": aggregatedApps}}
	d := discoveryOf(t, s)
	for range 3 {
		d.look(t.Context())
	}
	want := []served{
		{groupVersion: "apps/v1", resources: []resource{{"deployments", "Deployment"}}},
		{groupVersion: "apps/v2", stale: true},
	}
	if diff := cmp.Diff(want, d.all(), cmp.AllowUnexported(served{}, resource{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if s.whole != 2 {
		t.Errorf("the API server told everything %d times, want once of each document", s.whole)
	}
}

func TestAnOlderServerIsAskedOneByOne(t *testing.T) {
	d := discoveryOf(t, &server{bodies: map[string]string{
		"/api":          `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":       `{"kind":"APIResourceList","resources":[{"name":"pods","kind":"Pod"},{"name":"pods/status","kind":"Pod"}]}`,
		"/apis":         `{"kind":"APIGroupList","groups":[{"versions":[{"groupVersion":"apps/v1"},{"groupVersion":"away/v1"}]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","resources":[{"name":"deployments","kind":"Deployment"}]}`,
	}})
	d.look(t.Context())
	want := []served{
		{groupVersion: "v1", resources: []resource{{"pods", "Pod"}}},
		{groupVersion: "apps/v1", resources: []resource{{"deployments", "Deployment"}}},
		{groupVersion: "away/v1", stale: true},
	}
	if diff := cmp.Diff(want, d.all(), cmp.AllowUnexported(served{}, resource{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestOneFailureIsNotTold(t *testing.T) {
	s := &server{bodies: map[string]string{"/api": `{"kind":"APIGroupDiscoveryList","items":[]}`, "/apis": aggregatedApps}}
	d := discoveryOf(t, s)
	connection := &fleetv1alpha1.ClusterConnection{}
	says := func() string {
		d.tell(connection)
		return connection.Status.Conditions[0].Reason + " " + connection.Status.Conditions[0].Message
	}
	d.look(t.Context())
	before := says()
	delete(s.bodies, "/apis")
	if again := d.look(t.Context()); !again || says() != before {
		t.Errorf("after one failure: again=%t, told %q", again, says())
	}
	if again := d.look(t.Context()); again || says() == before || len(connection.Status.APIEnablements) != 1 {
		t.Errorf("after two failures: again=%t, told %q and %v", again, says(), connection.Status.APIEnablements)
	}
	s.bodies["/apis"] = aggregatedApps
	if d.look(t.Context()); says() != before {
		t.Errorf("when it is back: told %q", says())
	}
	// One that never told anything is told at once.
	empty := discoveryOf(t, &server{})
	empty.look(t.Context())
	empty.tell(connection)
	if reason := connection.Status.Conditions[0].Reason; reason != fleetv1alpha1.ClusterConnectionReasonEmpty {
		t.Errorf("a server that tells nothing: %s", reason)
	}
}
