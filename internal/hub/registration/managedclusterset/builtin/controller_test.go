// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

// docs/spec/cluster/managedclusterset.md says which sets there are, and what they select.
// As in OCM, everything else of them may be changed.
func TestBuiltInSetsAreMadeAndMended(t *testing.T) {
	byLabel := clusterv1beta2.ManagedClusterSelector{SelectorType: "ExclusiveClusterSetLabel"}
	everything := clusterv1beta2.ManagedClusterSelector{SelectorType: "LabelSelector", LabelSelector: &metav1.LabelSelector{}}
	nothing := clusterv1beta2.ManagedClusterSelector{SelectorType: "LabelSelector"}
	some := clusterv1beta2.ManagedClusterSelector{SelectorType: "LabelSelector", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	is := func(name string, selector clusterv1beta2.ManagedClusterSelector, autoUpdate ...string) *clusterv1beta2.ManagedClusterSet {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: selector}}
		for _, value := range autoUpdate {
			set.Annotations = map[string]string{"cluster.open-cluster-management.io/autoupdate": value}
		}
		return set
	}
	spaces := is("global", some)
	spaces.Spec.ManagedNamespaces = []clusterv1.ManagedNamespaceConfig{{Name: "apps"}}
	mended := spaces.DeepCopy()
	mended.Spec.ClusterSelector = everything
	going := is("global", some)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	cases := map[string]struct {
		name      string
		noDefault bool
		has, want *clusterv1beta2.ManagedClusterSet
	}{
		"global has all clusters":                   {"global", false, nil, is("global", everything)},
		"default has those that say so":             {"default", false, nil, is("default", byLabel)},
		"default is made only if it is asked for":   {"default", true, nil, nil},
		"global is made all the same":               {"global", true, nil, is("global", everything)},
		"a set of users is none of ours":            {"mine", false, nil, nil},
		"a set of users stays":                      {"mine", false, is("mine", some), is("mine", some)},
		"a change is undone":                        {"global", false, is("global", some), is("global", everything)},
		"all is not the same as none":               {"global", false, is("global", nothing), is("global", everything)},
		"another type is undone":                    {"default", false, is("default", everything), is("default", byLabel)},
		"whoever says so may change it":             {"global", false, is("global", some, "false"), is("global", some, "false")},
		"whoever says otherwise may not":            {"global", false, is("global", some, "true"), is("global", everything, "true")},
		"only what it selects is undone":            {"global", false, spaces, mended},
		"one that is going goes as it is":           {"global", false, going, going},
		"the default set stays with who has it off": {"default", true, is("default", some), is("default", some)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := clusterv1beta2.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if tc.has != nil {
				builder.WithObjects(tc.has.DeepCopy())
			}
			hub := builder.Build()
			if _, err := NewPredefinedSetController(hub, !tc.noDefault).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: tc.name}}); err != nil {
				t.Fatal(err)
			}
			got := &clusterv1beta2.ManagedClusterSet{}
			if err := hub.Get(t.Context(), types.NamespacedName{Name: tc.name}, got); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			} else if err != nil {
				got = nil
			} else {
				got.ResourceVersion = ""
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the set, -want +got:\n%s", diff)
			}
		})
	}
}
