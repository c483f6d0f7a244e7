// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
)

var (
	errNotFound = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")
	forbidden   = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
)

// TestTheMapperKnowsKindsAsTheirDefinitionsHaveThem: it guesses the resources, and nobody
// asks the API server.
func TestTheMapperKnowsKindsAsTheirDefinitionsHaveThem(t *testing.T) {
	t.Parallel()
	known := map[schema.GroupKind]bool{}
	for _, read := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){config.HubCRDs, config.SpokeCRDs, config.OperatorCRDs} {
		definitions, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range definitions {
			kind := schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}
			var versions []string
			for _, v := range d.Spec.Versions {
				versions = append(versions, v.Name)
			}
			mapping, err := newRESTMapper().RESTMapping(kind, versions...)
			if meta.IsNoMatchError(err) {
				continue // the doctor does not read it
			}
			if err != nil {
				t.Fatal(err)
			}
			known[kind] = true
			if mapping.Resource.Resource != d.Spec.Names.Plural || (mapping.Scope.Name() == meta.RESTScopeNameNamespace) != (d.Spec.Scope == apiextensionsv1.NamespaceScoped) {
				t.Errorf("%s is mapped to %s by %s", kind, mapping.Resource, mapping.Scope.Name())
			}
		}
	}
	if len(known) != 8 {
		t.Errorf("definitions are known of %v, not of 8 kinds", known)
	}
}

// TestAThingIsThereOrNotOrCannotBeRead: a kind that the API server does not know is not
// there, and what cannot be read is not taken for that.
func TestAThingIsThereOrNotOrCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err, why      error
		found, absent bool
	}{
		"there":               {found: true},
		"not there":           {err: errNotFound, absent: true},
		"no right to read it": {err: forbidden, why: forbidden},
		"no answer":           {err: context.DeadlineExceeded, why: context.DeadlineExceeded},
	} {
		list, object := &corev1.PodList{}, &corev1.Pod{}
		many := listResult(list, c.err)
		single := readObject(t.Context(), &server{err: c.err}, object)
		if many.Found != c.found || many.IsAbsent() != c.absent || !errors.Is(many.Err, c.why) || (many.Value == list) != c.found {
			t.Errorf("a list is %s: %+v", name, many)
		}
		if single.Found != c.found || single.IsAbsent() != c.absent || !errors.Is(single.Err, c.why) || (single.Value == object) != c.found {
			t.Errorf("an object is %s: %+v", name, single)
		}
	}
}

// server is one that has secrets, by namespace, and pages of works, the last of which may be an error.
type server struct {
	client.Client
	err     error
	secrets map[string]*corev1.Secret
	pages   [][]string
	asked   []string // the continue tokens
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	secret, is := into.(*corev1.Secret)
	if !is || s.err != nil {
		return s.err
	}
	if found := s.secrets[key.Namespace]; found != nil {
		found.DeepCopyInto(secret)
		return nil
	}
	return errNotFound
}

func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	s.asked = append(s.asked, o.Continue)
	page := len(s.asked) - 1
	if page == len(s.pages) {
		return s.err
	}
	works := into.(*workv1.ManifestWorkList)
	for _, name := range s.pages[page] {
		works.Items = append(works.Items, workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}})
	}
	if page < len(s.pages)-1 || s.err != nil {
		works.Continue = string(rune('a' + page))
	}
	return nil
}

func TestWorksAreReadPageByPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server server
		names  []string
		asked  []string
		found  bool
		why    error
	}{
		"none":              {server: server{pages: [][]string{{}}}, asked: []string{""}, found: true},
		"one page":          {server: server{pages: [][]string{{"one", "two"}}}, names: []string{"one", "two"}, asked: []string{""}, found: true},
		"three pages":       {server: server{pages: [][]string{{"one"}, {"two"}, {"three"}}}, names: []string{"one", "two", "three"}, asked: []string{"", "a", "b"}, found: true},
		"an unknown kind":   {server: server{err: errNotFound}, asked: []string{""}},
		"no right":          {server: server{err: forbidden}, asked: []string{""}, why: forbidden},
		"an error later on": {server: server{pages: [][]string{{"one"}, {"two"}}, err: forbidden}, names: []string{"one", "two"}, asked: []string{"", "a", "b"}, found: true, why: forbidden},
	} {
		got := listWorks(t.Context(), &c.server, "east")
		var names []string
		for i := range got.Value.Items {
			names = append(names, got.Value.Items[i].Name)
		}
		if diff := cmp.Diff([][]string{c.names, c.asked}, [][]string{names, c.server.asked}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: names and what was asked for (-want +got):\n%s", name, diff)
		}
		if got.Found != c.found || !errors.Is(got.Err, c.why) {
			t.Errorf("%s: found is %t (%v)", name, got.Found, got.Err)
		}
	}
}

// dated answers with these values of the header Date, one after the other; "-" is an error.
type dated []string

func (d *dated) RoundTrip(*http.Request) (*http.Response, error) {
	date := (*d)[0]
	*d = (*d)[1:]
	if date == "-" {
		return nil, errors.New("no answer")
	}
	return &http.Response{Header: http.Header{"Date": {date}}}, nil
}

// TestTheTimeIsTheServers: the latest that it has said, and ours only if it says none.
func TestTheTimeIsTheServers(t *testing.T) {
	t.Parallel()
	ours := time.Unix(1, 0)
	for name, c := range map[string]struct {
		dates dated
		want  time.Time
	}{
		"nothing is asked":    {nil, ours},
		"no answer":           {dated{"-"}, ours},
		"no date":             {dated{""}, ours},
		"no date that is one": {dated{"tomorrow"}, ours},
		"a date":              {dated{"Thu, 01 Jan 1970 00:01:40 GMT"}, time.Unix(100, 0)},
		"the latest":          {dated{"Thu, 01 Jan 1970 00:01:40 GMT", "Thu, 01 Jan 1970 00:03:20 GMT", "-", "x"}, time.Unix(200, 0)},
	} {
		settings, watched := &rest.Config{}, &serverClock{}
		watched.trackServerTime(settings)
		transport := settings.WrapTransport(&c.dates)
		for range len(c.dates) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hub.example.com", nil)
			if err != nil {
				t.Fatal(err)
			}
			if response, err := transport.RoundTrip(request); (err == nil) != (response != nil) { //nolint:bodyclose // there is none
				t.Errorf("%s: the answer is %v (%v)", name, response, err)
			}
		}
		if got := watched.latestTime(ours); !got.Equal(c.want) {
			t.Errorf("%s: it is %v, not %v", name, got, c.want)
		}
	}
}
