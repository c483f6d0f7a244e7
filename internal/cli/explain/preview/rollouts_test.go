// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// TestAChangeThatGoesByStages asks for two new objects of a policy.
func TestAChangeThatGoesByStages(t *testing.T) {
	own := func(name string, age time.Duration, spec fleetv1alpha1.PropagationRolloutSpec) client.Object {
		return &fleetv1alpha1.PropagationRollout{Spec: spec, ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC).Add(-age)),
		}}
	}
	ofPolicy := fleetv1alpha1.PropagationRolloutSpec{Policy: &fleetv1alpha1.RolloutPolicy{Name: "even"}}
	ofObject := fleetv1alpha1.PropagationRolloutSpec{
		Template: &fleetv1alpha1.RolloutTemplate{APIVersion: "apps/v1", Kind: "Deployment", Name: "new"},
		Groups:   []fleetv1alpha1.RolloutGroup{{Name: "canary", ClusterNames: []string{"paris"}}},
	}
	paused, wrong := ofPolicy, ofPolicy
	paused.Paused, wrong.MinSuccessTime = true, "soon"
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: new, labels: {even: "true"}}}`
	const begin, end = "rolls it out group by group: ", ` shows its progress.`
	for name, test := range map[string]struct {
		rollouts []client.Object
		want     string
	}{
		"none":        {nil, ""},
		"of others":   {[]client.Object{own("odd", 0, fleetv1alpha1.PropagationRolloutSpec{Policy: &fleetv1alpha1.RolloutPolicy{Name: "odd"}})}, ""},
		"of a policy": {[]client.Object{own("even", 0, ofPolicy)}, "PropagationRollout shop/even " + begin + `all others (1 cluster). "capstan rollout status even -n shop"` + end},
		"the object goes before": {
			[]client.Object{own("even", time.Hour, ofPolicy), own("new", 0, ofObject)},
			"PropagationRollout shop/new " + begin + `canary (1 cluster). "capstan rollout status new -n shop"` + end,
		},
		"the older goes before": {
			[]client.Object{own("a", 0, paused), own("b", time.Hour, ofPolicy)},
			"PropagationRollout shop/b " + begin + `all others (1 cluster). "capstan rollout status b -n shop"` + end,
		},
		"paused": {
			[]client.Object{own("even", 0, paused)},
			"PropagationRollout shop/even " + begin + `all others (1 cluster). It is paused: no cluster gets it until it is resumed. "capstan rollout status even -n shop"` + end,
		},
		"with a mistake": {
			[]client.Object{own("even", 0, wrong)},
			"PropagationRollout shop/even " + begin + `all others (1 cluster). No cluster gets it until the rollout is fixed. "capstan rollout status even -n shop"` + end,
		},
		"of a ClusterPropagationPolicy of that name": {
			[]client.Object{&fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: metav1.ObjectMeta{Name: "even"}, Spec: ofPolicy}}, "",
		},
	} {
		h := newHub(t, 0)
		for _, one := range test.rollouts {
			if err := h.Client.Create(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		found, failed, err := h.ReadPreview(t.Context(), written(t, evenPolicy, deployment))
		if err != nil || len(failed) > 0 || len(found.objects) != 1 {
			t.Errorf("%s: %v, %v, %+v", name, err, failed, found)
			continue
		}
		told := found.objects[0]
		if got := strings.Join(told.Notes, "\n"); got != test.want || !strings.HasPrefix(test.want, told.Rollout) || (told.Rollout == "") != (test.want == "") {
			t.Errorf("%s: %q, %q, want %q", name, told.Rollout, got, test.want)
		}
	}
}
