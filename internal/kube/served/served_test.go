// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package served_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/kube/served"
)

// server is an API server: what it serves, and how often it was asked.
type server struct {
	discovery.ServerResourcesInterface

	lists []*metav1.APIResourceList
	err   error
	asked int
}

func (s *server) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	s.asked++
	var failed *discovery.ErrGroupDiscoveryFailed
	if s.err != nil && !errors.As(s.err, &failed) {
		return nil, nil, s.err
	}
	return []*metav1.APIGroup{}, s.lists, s.err
}

// mapper counts what it is asked about.
type mapper struct {
	meta.RESTMapper

	asked int
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked++
	return m.RESTMapper.RESTMapping(kind, versions...) //nolint:wrapcheck // it is asked in the place of the other
}

func list(version string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: version, APIResources: resources}
}

func TestManyKindsAreOneRequest(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}
	known := &mapper{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	known.RESTMapper.(*meta.DefaultRESTMapper).Add(widget, meta.RESTScopeNamespace)
	hub, clk := &server{lists: []*metav1.APIResourceList{list("example.io/v1", metav1.APIResource{Name: "widgets", Kind: "Widget"})}}, clocktesting.NewFakeClock(time.Unix(0, 0))
	mapper := served.NewKindCache(hub, clk).WrapMapper(known)
	look := func() {
		t.Helper()
		for i := range 10_000 {
			if _, err := mapper.RESTMapping(schema.GroupKind{Group: "example.io", Kind: fmt.Sprintf("Invented%d", i)}, "v1"); !meta.IsNoMatchError(err) {
				t.Fatalf("got the error %v, want that there is no such kind", err)
			}
		}
	}
	look()
	if hub.asked != 1 || known.asked != 0 {
		t.Errorf("10,000 kinds that nobody serves are %d requests, and %d of the other mapper", hub.asked, known.asked)
	}
	for range 3 {
		if _, err := mapper.RESTMapping(widget.GroupKind(), widget.Version); err != nil {
			t.Errorf("a kind that is served: %v", err)
		}
		clk.Step(served.MaxAge)
	}
	if hub.asked != 1 {
		t.Errorf("a kind that is known is asked for again: %d requests", hub.asked)
	}
	look()
	if hub.asked != 2 {
		t.Errorf("the answer is old, and there are %d requests, want 2", hub.asked)
	}
}

func TestWhatIsServed(t *testing.T) {
	away := errors.New("the server of the group is away")
	partly := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "away.io", Version: "v1"}: away}}
	lists := []*metav1.APIResourceList{
		list("example.io/v2", metav1.APIResource{Name: "widgets", Kind: "Widget"}, metav1.APIResource{Name: "widgets/part", Kind: "Part"}),
		list("v1", metav1.APIResource{Name: "pods", Kind: "Pod"}),
	}
	for name, test := range map[string]struct {
		kind         schema.GroupVersionKind
		err          error
		any, version bool
		unknown      bool
	}{
		"served":                    {kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, any: true, version: true},
		"spelled in another way":    {kind: schema.GroupVersionKind{Version: "v1", Kind: "pod"}},
		"served in another version": {kind: schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}, any: true},
		"a subresource":             {kind: schema.GroupVersionKind{Group: "example.io", Version: "v2", Kind: "Part"}},
		"no such group":             {kind: schema.GroupVersionKind{Group: "other.io", Version: "v1", Kind: "Widget"}, err: partly},
		"its group is away":         {kind: schema.GroupVersionKind{Group: "away.io", Version: "v1", Kind: "Widget"}, err: partly, unknown: true},
		"another group is away":     {kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, err: partly, any: true, version: true},
		"no answer":                 {kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, err: away, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := served.NewKindCache(&server{lists: lists, err: test.err}, clocktesting.NewFakeClock(time.Unix(0, 0)))
			inAny, errAny := kinds.ServesKind(test.kind.GroupKind())
			inVersion, errVersion := kinds.ServesVersion(test.kind)
			if inAny != test.any || inVersion != test.version {
				t.Errorf("served in any version: %t, in its own: %t, want %t and %t", inAny, inVersion, test.any, test.version)
			}
			for _, err := range []error{errAny, errVersion} {
				if errors.Is(err, away) != test.unknown || err != nil && !test.unknown {
					t.Errorf("got the error %v, want one: %t", err, test.unknown)
				}
			}
			_, err := kinds.WrapMapper(meta.NewDefaultRESTMapper(nil)).RESTMapping(test.kind.GroupKind(), test.kind.Version)
			if meta.IsNoMatchError(err) == test.unknown {
				t.Errorf("the mapper says %v, want that nobody can tell: %t", err, test.unknown)
			}
		})
	}
}
