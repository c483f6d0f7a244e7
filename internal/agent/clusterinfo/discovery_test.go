// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
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

func discoveryOf(t *testing.T, s *server) *apiDiscovery {
	t.Helper()
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	d, err := newAPIDiscovery(&rest.Config{Host: front.URL}, front.Client())
	expect.NoError(t, err)
	return d
}

func (d *apiDiscovery) all() []servedGroupVersion {
	return append(d.documents[0].found, d.documents[1].found...)
}

func TestDiscoveryCostsNothingWhileNothingChanges(t *testing.T) {
	s := &server{bodies: map[string]string{"/api": `{"kind":"APIGroupDiscoveryList","items":[]}`, "/apis": aggregatedApps}}
	d := discoveryOf(t, s)
	for range 3 {
		d.refreshDocuments(t.Context())
	}
	want := []servedGroupVersion{
		{groupVersion: "apps/v1", resources: []servedResource{{"deployments", "Deployment"}}},
		{groupVersion: "apps/v2", stale: true},
	}
	if diff := cmp.Diff(want, d.all(), cmp.AllowUnexported(servedGroupVersion{}, servedResource{})); diff != "" {
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
	d.refreshDocuments(t.Context())
	want := []servedGroupVersion{
		{groupVersion: "v1", resources: []servedResource{{"pods", "Pod"}}},
		{groupVersion: "apps/v1", resources: []servedResource{{"deployments", "Deployment"}}},
		{groupVersion: "away/v1", stale: true},
	}
	if diff := cmp.Diff(want, d.all(), cmp.AllowUnexported(servedGroupVersion{}, servedResource{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestOneFailureIsNotTold(t *testing.T) {
	s := &server{bodies: map[string]string{"/api": `{"kind":"APIGroupDiscoveryList","items":[]}`, "/apis": aggregatedApps}}
	d := discoveryOf(t, s)
	connection := &fleetv1alpha1.ClusterConnection{}
	says := func() string {
		d.setEnablements(connection)
		return connection.Status.Conditions[0].Reason + " " + connection.Status.Conditions[0].Message
	}
	d.refreshDocuments(t.Context())
	before := says()
	delete(s.bodies, "/apis")
	if again := d.refreshDocuments(t.Context()); !again || says() != before {
		t.Errorf("after one failure: again=%t, told %q", again, says())
	}
	if again := d.refreshDocuments(t.Context()); again || says() == before || len(connection.Status.APIEnablements) != 1 {
		t.Errorf("after two failures: again=%t, told %q and %v", again, says(), connection.Status.APIEnablements)
	}
	s.bodies["/apis"] = aggregatedApps
	if d.refreshDocuments(t.Context()); says() != before {
		t.Errorf("when it is back: told %q", says())
	}
	// One that never told anything is told at once.
	empty := discoveryOf(t, &server{})
	empty.refreshDocuments(t.Context())
	empty.setEnablements(connection)
	if reason := connection.Status.Conditions[0].Reason; reason != fleetv1alpha1.ClusterConnectionReasonEmpty {
		t.Errorf("a server that tells nothing: %s", reason)
	}
}

// flood returns an API server that has many groups with many resources, all of whose names begin
// with the one given, and the ways in which it may tell.
func flood(name string) (s *server, ways map[string]string) {
	const groups, each = 16, 1000
	var aggregated, list []string
	s = &server{bodies: map[string]string{"/api": `{"versions":["v1"]}`, "/api/v1": `{"resources":[{"name":"pods","kind":"Pod"}]}`}}
	for group := range groups {
		var resources, one []string
		for i := range each {
			resources = append(resources, fmt.Sprintf(`{"resource":"%s%d","responseKind":{"kind":"%s"}}`, name, i, name))
			one = append(one, fmt.Sprintf(`{"name":"%s%d","kind":"%s"}`, name, i, name))
		}
		few := strings.Join(resources[:each/groups], ",") // as one answer has 8 MiB at most
		aggregated = append(aggregated, fmt.Sprintf(`{"metadata":{"name":"g%d"},"versions":[{"version":"v1","resources":[%s]}]}`, group, few))
		list = append(list, fmt.Sprintf(`{"versions":[{"groupVersion":"g%d/v1"}]}`, group))
		s.bodies[fmt.Sprintf("/apis/g%d/v1", group)] = `{"resources":[` + strings.Join(one, ",") + `]}`
	}
	return s, map[string]string{
		"one by one": `{"groups":[` + strings.Join(list, ",") + `]}`,
		"in one":     `{"kind":"APIGroupDiscoveryList","items":[` + strings.Join(aggregated, ",") + `]}`,
	}
}

// TestWhatIsFoundIsBounded has API servers serve groups with more and longer names than are
// kept: in one document, and one by one.
func TestWhatIsFoundIsBounded(t *testing.T) {
	t.Parallel()
	for test, name := range map[string]string{"more names": strings.Repeat("x", nameBytesMax-10), "longer names": strings.Repeat("x", nameBytesMax+1)} {
		s, ways := flood(name)
		for way, body := range ways {
			s.bodies["/apis"] = body
			d := discoveryOf(t, s)
			d.refreshDocuments(t.Context())
			d.refreshDocuments(t.Context())
			bytes := 0
			for _, found := range d.all() {
				for _, r := range found.resources {
					bytes += len(r.name) + len(r.kind)
				}
			}
			if most := len(d.documents) * foundBytesMax; bytes > most {
				t.Errorf("%s, %s: %d bytes of names are kept, want at most %d", test, way, bytes, most)
			}
			connection := &fleetv1alpha1.ClusterConnection{}
			d.setEnablements(connection)
			if told := connection.Status.APIEnablements; len(told) == 0 || told[len(told)-1].GroupVersion != "v1" {
				t.Errorf("%s, %s: of %d groups and versions that are told, none is that of the core", test, way, len(told))
			}
			complete := connection.Status.Conditions[0].Status == metav1.ConditionTrue
			if tooMuch := test == "more names"; complete == tooMuch {
				t.Errorf("%s, %s: got %+v", test, way, connection.Status.Conditions[0])
			}
		}
	}
}

// TestWhatIsToldIsKept has an API server serve as much as is told.
func TestWhatIsToldIsKept(t *testing.T) {
	t.Parallel()
	var found discoveryFindings
	for group := range groupVersionsMax {
		s := servedGroupVersion{groupVersion: fmt.Sprintf("group%d.example.net/v1", group)}
		for i := range resourcesMax / groupVersionsMax {
			s.resources = append(s.resources, servedResource{name: fmt.Sprintf("resources-of-a-long-name-%d", i), kind: fmt.Sprintf("ResourceOfALongName%d", i)})
		}
		if err := found.addGroupVersion(s); err != nil {
			t.Fatalf("after %d groups: %v", group, err)
		}
	}
}
