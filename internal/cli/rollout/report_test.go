// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// rollout returns one that has come to be so.
func rollout(reason string, status metav1.ConditionStatus) *fleetv1alpha1.PropagationRollout {
	return &fleetv1alpha1.PropagationRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
		Spec:       fleetv1alpha1.PropagationRolloutSpec{Policy: &fleetv1alpha1.RolloutPolicy{Name: "web"}},
		Status: fleetv1alpha1.PropagationRolloutStatus{
			ObservedGeneration: 2, Revision: 3, Objects: 1, Stage: "2/3", Group: "staging",
			Clusters: fleetv1alpha1.RolloutClusters{Total: 4, Pending: 2, Updated: 2, Healthy: 1, Failed: 1},
			Conditions: []metav1.Condition{{
				Type: fleetv1alpha1.PropagationRolloutConditionComplete, Status: status, Reason: reason, Message: "1 failed.",
			}},
		},
	}
}

func TestTheReportSaysWhatToDo(t *testing.T) {
	const head = "Stage 2/3 (group staging), 1 object\nClusters: 4, of which 2 have the change: 1 healthy, 0 progressing, 1 failed\n1 failed.\n"
	for reason, want := range map[string]string{
		fleetv1alpha1.PropagationRolloutReasonTooManyFailures: "Rollout shop/web of policy web: revision 3, TooManyFailures\n" + head +
			"Fix the clusters or change what is sent; \"capstan rollout undo web -n shop\" undoes the change.\n",
		fleetv1alpha1.PropagationRolloutReasonPaused: "Rollout shop/web of policy web: revision 3, Paused\n" + head +
			"\"capstan rollout resume web -n shop\" resumes it.\n",
		fleetv1alpha1.PropagationRolloutReasonUndone: "Rollout shop/web of policy web: revision 3, Undone\n" + head +
			"Change what is sent; \"capstan rollout resume web -n shop\" rolls out the same change again.\n",
		fleetv1alpha1.PropagationRolloutReasonRollingOut: "Rollout shop/web of policy web: revision 3, RollingOut\n" + head,
	} {
		r := &StatusReport{Namespace: "shop", Name: "web"}
		r.fillStatus(rollout(reason, metav1.ConditionFalse))
		if diff := cmp.Diff(want, r.formatReport()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

func TestWhatCanBeUndone(t *testing.T) {
	for name, test := range map[string]struct {
		of   *fleetv1alpha1.PropagationRollout
		want string
		undo *int64
	}{
		"stopped":          {rollout(fleetv1alpha1.PropagationRolloutReasonTooManyFailures, metav1.ConditionFalse), "revision 3 is undone where clusters had something before", new(int64(3))},
		"complete":         {rollout(fleetv1alpha1.PropagationRolloutReasonComplete, metav1.ConditionTrue), "all clusters have the latest change: there is nothing to undo", nil},
		"nothing is known": {&fleetv1alpha1.PropagationRollout{}, "nothing has been rolled out yet", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := undo(test.of)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff([]any{test.want, test.undo}, []any{got, test.of.Spec.Undo}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if test.undo == nil {
				return
			}
			if again, err := undo(test.of); err != nil || again != "it is already being undone" {
				t.Errorf("once more: %q, %v", again, err)
			}
		})
	}
}
