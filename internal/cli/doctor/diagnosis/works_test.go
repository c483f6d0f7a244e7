// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

func TestWhatARestoredHubForgotIsSaidWithWhatToDo(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus]int{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
		mc.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ManagedClusterConditionWorksMissing, Status: status,
			Reason: clusterv1.ManagedClusterReasonHubRestored, Message: "one is missing",
		}}
		e := &evidence.Evidence{Hub: hub(time.Now()), Cluster: &evidence.ClusterEvidence{
			Name: "east", Managed: evidence.Reading[*clusterv1.ManagedCluster]{Found: true, Value: mc},
		}}
		found := clusterWorks(e)
		if len(found) != want {
			t.Fatalf("%s: got %+v, want %d findings", status, found, want)
		}
		if want > 0 && (found[0].State != Odd || !strings.Contains(found[0].Next, "kubectl annotate managedcluster east fleet.capstan.io/restored-")) {
			t.Errorf("got %+v", found[0])
		}
	}
}
