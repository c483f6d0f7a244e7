// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestWhatManyNeedIsAShortBinding has an object be needed by many: its binding would be stored, and kept in memory,
// with all clusters of each of them.
func TestWhatManyNeedIsAShortBinding(t *testing.T) {
	const most = 256 << 10
	for name, test := range map[string]struct{ referrers, clusters int }{
		"500 on 100 clusters": {500, 100}, "3,000 on 3 clusters": {3000, 3}, "5 on 500 clusters": {5, 500},
	} {
		var all []workv1alpha2.Binding
		wants := sets.New[string]()
		for n := range test.referrers {
			web := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%04d-deployment", n)}}
			web.Labels = map[string]string{workv1alpha2.LabelResourceBindingID: "8f3f0c5e-6a53-4c1e-a27d-6d6d4c4c2d01"}
			web.Spec.PropagateDeps = true
			for i := range test.clusters {
				cluster := fmt.Sprintf("member-of-the-fleet-%d", i+n%2)
				web.Spec.Clusters = append(web.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
				wants.Insert(cluster)
			}
			all = append(all, web)
		}
		b := &workv1alpha2.ResourceBinding{}
		SumReferrerNeeds(all).ApplyToBinding(b)
		text, err := json.Marshal(b)
		if err != nil || len(text) > most {
			t.Errorf("%s: %v: the binding has %d bytes, want at most %d", name, err, len(text), most)
		}
		has := sets.New[string]()
		for _, one := range b.Spec.RequiredBy {
			for _, target := range one.Clusters {
				has.Insert(target.Name)
			}
		}
		if !has.Equal(wants) {
			t.Errorf("%s: %d clusters are named, want all %d", name, len(has), len(wants))
		}
		if len(b.Labels) != len(b.Spec.RequiredBy) {
			t.Errorf("%s: %d labels for %d who need it", name, len(b.Labels), len(b.Spec.RequiredBy))
		}
		same := func(a, b workv1alpha2.BindingSnapshot) bool {
			return a.Name == b.Name && len(a.Clusters) == len(b.Clusters)
		}
		if again := BoundReferrers(b.Spec.RequiredBy); !slices.EqualFunc(again, b.Spec.RequiredBy, same) {
			t.Errorf("%s: a cache shows another binding than was written", name)
		}
		if few := test.referrers < 10; few && len(b.Spec.RequiredBy[test.referrers-1].Clusters) != test.clusters {
			t.Errorf("%s: few referrers are not written whole", name)
		}
	}
}
