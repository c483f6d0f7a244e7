// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestPushClustersOfAHostedHubAreSeenAtOnce runs the operator as it runs on a
// cluster. Looking every minute alone would not see both changes in less.
func TestPushClustersOfAHostedHubAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	l := newHostedLab(t)
	l.startManager(t, l.restConfig)
	l.leadAs(t, installer)
	l.host(t, nil)
	l.await(t, "the hub is installed", func() bool {
		l.rollOut(t)
		list := l.get(t).Status.Conditions
		return meta.IsStatusConditionTrue(list, operatorv1.ClusterManagerConditionApplied) &&
			meta.IsStatusConditionFalse(list, operatorv1.ClusterManagerConditionProgressing)
	})
	pushAgents := func(want int32) func() bool {
		return func() bool { return *l.deployments(t)["cluster-manager-push-agent"].Spec.Replicas == want }
	}
	l.await(t, "no push agent runs without a Push cluster", pushAgents(0))
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	connection.Spec = fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member"}
	expect.NoError(t, l.hubAdmin.Create(t.Context(), connection))
	l.await(t, "the push agent runs for a Push cluster", pushAgents(1))
	began := time.Now()
	expect.NoError(t, l.hubAdmin.Delete(t.Context(), connection))
	l.await(t, "the push agent ends with the last Push cluster", pushAgents(0))
	if took := time.Since(began); took > hubResync/2 {
		t.Errorf("it took %s until the push agent ended; the hub is watched", took)
	}
}
