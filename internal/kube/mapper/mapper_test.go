// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package mapper_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/capstan-io/capstan/internal/kube/mapper"
)

// TestExact asks for a kind as it is spelled and otherwise, of a mapper as
// discovery makes it.
func TestExact(t *testing.T) {
	discovered := restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{{
		Group: metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}},
		VersionedResources: map[string][]metav1.APIResource{
			"v1": {{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true}},
		},
	}})
	if _, err := discovered.RESTMapping(schema.GroupKind{Kind: "configmap"}, "v1"); err != nil {
		t.Fatalf("the mapper of discovery does not know kinds in lower case any more, so this package is of no use: %v", err)
	}
	exact := mapper.NewExactMapper(discovered)
	for kind, found := range map[string]bool{"ConfigMap": true, "configmap": false, "CONFIGMAP": false, "configmaps": false} {
		one, err := exact.RESTMapping(schema.GroupKind{Kind: kind}, "v1")
		all, errAll := exact.RESTMappings(schema.GroupKind{Kind: kind}, "v1")
		switch {
		case found && (err != nil || errAll != nil || one.Resource.Resource != "configmaps" || len(all) != 1):
			t.Errorf("%s: got %v (%v) and %v (%v), want configmaps", kind, one, err, all, errAll)
		case !found && (!meta.IsNoMatchError(err) || !meta.IsNoMatchError(errAll)):
			t.Errorf("%s: got the errors %v and %v, want that there is no such kind", kind, err, errAll)
		}
	}
}
