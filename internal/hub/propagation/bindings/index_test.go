// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// workFor returns a work of the binding of a ConfigMap.
func workFor(cluster, object string) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: object, Labels: map[string]string{workv1alpha2.LabelResourceBindingID: "id-" + object},
		Annotations: map[string]string{
			workv1alpha2.AnnotationResourceBindingNamespace: "team", workv1alpha2.AnnotationResourceBindingName: object + "-configmap",
		},
	}}
}

func TestWorksAreFoundByTheirBinding(t *testing.T) {
	works := WorkIndex{indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{indexWorks: bucketsOf})}
	const objects = 3 * buckets // so that some share a part of the index
	for i := range objects {
		for _, cluster := range []string{"a", "b"} {
			if err := works.indexer.Add(workFor(cluster, fmt.Sprintf("c%d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := workFor("c", "c7")
	other.Labels, other.Annotations = nil, nil // its member has taken off what it says
	if err := works.indexer.Add(other); err != nil {
		t.Fatal(err)
	}
	clusters := func(found []*workv1.ManifestWork, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, work := range found {
			names = append(names, work.Namespace+"/"+work.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	name := types.NamespacedName{Namespace: "team", Name: "c7-configmap"}
	for what, test := range map[string]struct{ got, want string }{
		"by their name":        {clusters(works.ListByName("c7")), "a/c7 b/c7 c/c7"},
		"by their binding":     {clusters(works.ListByBinding(name)), "a/c7 b/c7"},
		"of none":              {clusters(works.ListByName("x")), ""},
		"of another namespace": {clusters(works.ListByBinding(types.NamespacedName{Namespace: "other", Name: name.Name})), ""},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q is found, want %q", what, test.got, test.want)
		}
	}
}
