// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/integration/syncmode/harness"
)

// TestAHubThatIsRemovedLeavesWhatItsWorksDelivered removes a hub whose user has
// asked to keep works, while an agent works for it.
func TestAHubThatIsRemovedLeavesWhatItsWorksDelivered(t *testing.T) {
	l := harness.NewLab(t, servers)
	l.StartPull()
	l.CreateJoined(nil)
	l.MayUseWorks(true)
	l.StartOperator(&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{
		Name: "cluster-manager", Annotations: map[string]string{operatorv1.AnnotationKeepWorks: "true"},
	}})
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: harness.Cluster, Name: "kept", Finalizers: []string{workv1.FinalizerManifestWorkCleanup}},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{harness.Manifest("kept", "1")}}},
	}
	l.CreateOnHub(work)
	l.IsDelivered("kept", "1")
	before := l.DeliveredConfigMap("kept")
	if len(before.OwnerReferences) == 0 {
		t.Fatal("what was delivered has no owner")
	}

	expect.NoError(t, l.Hub.Client.Delete(t.Context(), &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}}))
	l.Eventually("the work is gone", func(ctx context.Context) string {
		if err := l.Hub.Client.Get(ctx, client.ObjectKeyFromObject(work), &workv1.ManifestWork{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	l.Eventually("its record is gone", func(ctx context.Context) string {
		records := &workv1.AppliedManifestWorkList{}
		expect.NoError(t, l.Member.Client.List(ctx, records))
		if len(records.Items) > 0 {
			return fmt.Sprintf("%d are left", len(records.Items))
		}
		return ""
	})
	after := l.DeliveredConfigMap("kept")
	if after.UID != before.UID || !after.DeletionTimestamp.IsZero() || len(after.OwnerReferences) > 0 || after.Data["value"] != "1" {
		t.Errorf("what was delivered is %+v with %v, want it as it was, and nobody's", after.ObjectMeta, after.Data)
	}
}
