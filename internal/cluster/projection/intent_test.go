// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestComplete(t *testing.T) {
	deleted := metav1.Now()
	noted := map[string]string{fleetv1alpha1.AnnotationCompletedIntent: "1"}
	forced := map[string]string{fleetv1alpha1.AnnotationForceDetach: "true"}
	deleting := func(mc *clusterv1.ManagedCluster) { mc.DeletionTimestamp = &deleted }
	cases := map[string]struct {
		have   func(*clusterv1.ManagedCluster)
		intent fleetv1alpha1.ClusterIntent
		want   func(*clusterv1.ManagedCluster)
	}{
		"labels": {
			have:   func(mc *clusterv1.ManagedCluster) { mc.Labels["of"] = "another"; mc.Labels["old"] = "1" },
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Labels: map[string]string{"zone": "b"}, RemovedLabels: []string{"old", "absent"}},
			want: func(mc *clusterv1.ManagedCluster) {
				mc.Labels, mc.Annotations = map[string]string{"of": "another", "zone": "b"}, noted
			},
		},
		"a taint of another value": {
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Taints: []corev1.Taint{{Key: "gpu", Value: "v", Effect: corev1.TaintEffectNoSchedule}}},
			want: func(mc *clusterv1.ManagedCluster) {
				mc.Spec.Taints[0].Value, mc.Spec.Taints[0].TimeAdded = "v", metav1.Time{}
				mc.Annotations = noted
			},
		},
		"a taint that is there": {
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
			want:   func(mc *clusterv1.ManagedCluster) { mc.Annotations = noted },
		},
		"taints by key and effect": {
			intent: fleetv1alpha1.ClusterIntent{
				ID: "1", Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}, {Key: "b", Effect: corev1.TaintEffectPreferNoSchedule}},
				RemovedTaints: []corev1.Taint{{Key: "gpu", Value: "any", Effect: corev1.TaintEffectNoSchedule}, {Key: "absent", Effect: corev1.TaintEffectNoSchedule}},
			},
			want: func(mc *clusterv1.ManagedCluster) {
				mc.Spec.Taints = []clusterv1.Taint{
					{Key: "gpu", Effect: clusterv1.TaintEffectNoSelect}, {Key: "b", Effect: clusterv1.TaintEffectPreferNoSelect},
				}
				mc.Annotations = noted
			},
		},
		"an effect that there is not is left to the API server": {
			intent: fleetv1alpha1.ClusterIntent{Taints: []corev1.Taint{{Key: "b", Effect: "Wrong"}}},
			want: func(mc *clusterv1.ManagedCluster) {
				mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: "b", Effect: "Wrong"})
			},
		},
		"acceptance": {
			intent: fleetv1alpha1.ClusterIntent{Accept: true}, want: func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = true },
		},
		"acceptance that was taken back since": {
			have:   func(mc *clusterv1.ManagedCluster) { mc.Annotations = noted },
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Accept: true}, want: func(*clusterv1.ManagedCluster) {},
		},
		"deletion": {
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Delete: true}, want: func(*clusterv1.ManagedCluster) {},
		},
		"force without deletion": {
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Force: true}, want: func(*clusterv1.ManagedCluster) {},
		},
		"force with deletion": {
			intent: fleetv1alpha1.ClusterIntent{ID: "1", Delete: true, Force: true},
			want:   func(mc *clusterv1.ManagedCluster) { mc.Annotations = forced },
		},
		"force while deleting": {
			have: deleting, intent: fleetv1alpha1.ClusterIntent{ID: "1", Force: true},
			want: func(mc *clusterv1.ManagedCluster) { mc.Annotations = forced },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.have == nil {
				tc.have = func(*clusterv1.ManagedCluster) {}
			}
			got := member(tc.have)
			CompleteIntent(got, &tc.intent)
			if diff := cmp.Diff(member(tc.have, tc.want), got); diff != "" {
				t.Errorf("the ManagedCluster (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompletingIsOnceAndUndoesNothing has others change a ManagedCluster before
// and after an intent is completed, which is done again then as after a crash.
func TestCompletingIsOnceAndUndoesNothing(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		mc, intent := member(), anIntent(random)
		mine := keysOf(intent)

		before := anotherClient(random, mc)
		CompleteIntent(mc, intent)
		completed := mc.DeepCopy()
		for key, value := range before {
			if got := stateOf(mc)[key]; !mine[key] && got != value {
				t.Fatalf("seed %d: %s is %q, another client made it %q before; intent %+v", seed, key, got, value, intent)
			}
		}
		checkHas(t, seed, mc, intent)
		if CompleteIntent(mc, intent); !cmp.Equal(completed, mc) {
			t.Fatalf("seed %d: completing %+v twice is not once:\n%s", seed, intent, cmp.Diff(completed, mc))
		}
		after := anotherClient(random, mc)
		CompleteIntent(mc, intent)
		for key, value := range after {
			if got := stateOf(mc)[key]; got != value {
				t.Fatalf("seed %d: %s is %q, another client made it %q since; intent %+v", seed, key, got, value, intent)
			}
		}
	}
}

// anIntent returns one with parts that do not contradict each other.
func anIntent(random *rand.Rand) *fleetv1alpha1.ClusterIntent {
	intent := &fleetv1alpha1.ClusterIntent{ID: "1", Labels: map[string]string{}, Accept: random.IntN(2) == 0}
	for i := range 4 {
		key := fmt.Sprintf("k%d", i)
		taint := corev1.Taint{Key: key, Value: fmt.Sprint(random.IntN(3)), Effect: someEffect(random)}
		switch random.IntN(3) {
		case 0:
			intent.Labels[key], intent.Taints = fmt.Sprint(random.IntN(3)), append(intent.Taints, taint)
		case 1:
			intent.RemovedLabels, intent.RemovedTaints = append(intent.RemovedLabels, key), append(intent.RemovedTaints, taint)
		}
	}
	return intent
}

func someEffect(random *rand.Rand) corev1.TaintEffect {
	all := []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
	return all[random.IntN(len(all))]
}

// anotherClient changes labels and taints as one of OCM does, and returns what it
// changed; "" is what it removed.
func anotherClient(random *rand.Rand, mc *clusterv1.ManagedCluster) map[string]string {
	was := stateOf(mc)
	for i := range 4 {
		key := fmt.Sprintf("k%d", i)
		value := corev1.Taint{Key: key, Value: fmt.Sprint(random.IntN(3)), Effect: someEffect(random)}
		switch random.IntN(4) {
		case 0:
			metav1.SetMetaDataLabel(&mc.ObjectMeta, key, value.Value)
		case 1:
			delete(mc.Labels, key)
		case 2:
			mc.Spec.Taints = setTaints(mc.Spec.Taints, []corev1.Taint{value}, nil)
		case 3:
			mc.Spec.Taints = setTaints(mc.Spec.Taints, nil, []corev1.Taint{value})
		}
	}
	changed := map[string]string{}
	is := stateOf(mc)
	for key, value := range is {
		if before, had := was[key]; !had || before != value {
			changed[key] = value
		}
	}
	for key := range was {
		if _, has := is[key]; !has {
			changed[key] = ""
		}
	}
	return changed
}

// stateOf returns the labels and taints of a ManagedCluster as one map.
func stateOf(mc *clusterv1.ManagedCluster) map[string]string {
	state := maps.Clone(mc.Labels)
	for _, t := range ClusterTaints(mc.Spec.Taints) {
		state[taintKey(t)] = "=" + t.Value
	}
	return state
}

func taintKey(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// keysOf returns what an intent changes.
func keysOf(intent *fleetv1alpha1.ClusterIntent) map[string]bool {
	keys := map[string]bool{}
	for key := range intent.Labels {
		keys[key] = true
	}
	for _, key := range intent.RemovedLabels {
		keys[key] = true
	}
	for _, t := range append(append([]corev1.Taint{}, intent.Taints...), intent.RemovedTaints...) {
		keys[taintKey(t)] = true
	}
	return keys
}

// checkHas checks that a ManagedCluster is as an intent wants it.
func checkHas(t *testing.T, seed uint64, mc *clusterv1.ManagedCluster, intent *fleetv1alpha1.ClusterIntent) {
	t.Helper()
	state := stateOf(mc)
	want := maps.Clone(intent.Labels)
	for _, taint := range intent.Taints {
		want[taintKey(taint)] = "=" + taint.Value
	}
	gone := append([]string{}, intent.RemovedLabels...)
	for _, taint := range intent.RemovedTaints {
		gone = append(gone, taintKey(taint))
	}
	for key, value := range want {
		if state[key] != value {
			t.Fatalf("seed %d: %s is %q, want %q of intent %+v", seed, key, state[key], value, intent)
		}
	}
	for _, key := range gone {
		if value, has := state[key]; has {
			t.Fatalf("seed %d: %s is %q, intent %+v removes it", seed, key, value, intent)
		}
	}
	if intent.Accept && !mc.Spec.HubAcceptsClient {
		t.Fatalf("seed %d: it is not accepted", seed)
	}
}
