// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// eventLimit is how long something may take that a watch brings about, on a
// busy machine.
const eventLimit = time.Minute

// TestManagerFollowsWhatItWatches runs the operator as it runs on a cluster: with
// its own cache, its own rights and its watches.
func TestManagerFollowsWhatItWatches(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	deps := l.startManager(t, l.restConfig)

	cm := &operatorv1.ClusterManager{}
	cm.Name = testName
	l.create(t, cm)
	l.await(t, "the hub is installed", func() bool {
		l.rollOut(t)
		return l.condition(t, operatorv1.ClusterManagerConditionApplied).Status == "True" &&
			l.condition(t, operatorv1.ClusterManagerConditionProgressing).Status == "False"
	})

	service := &corev1.Service{}
	l.exists(t, service, "cluster-manager-work-webhook", testHubNS)
	expect.NoError(t, l.client.Delete(t.Context(), service))
	l.await(t, "a deleted Service is back", func() bool {
		return l.exists(t, &corev1.Service{}, "cluster-manager-work-webhook", testHubNS)
	})

	secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")}}
	secret.Name, secret.Namespace = operatorv1.ImagePullSecret, operatorv1.DefaultOperatorNamespace
	l.create(t, secret)
	l.await(t, "a pull secret is copied when it appears", func() bool {
		return l.exists(t, &corev1.Secret{}, operatorv1.ImagePullSecret, testHubNS)
	})

	// The one that leads to a hosted hub is seen in any namespace.
	l.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hub1", Labels: map[string]string{operatorv1.LabelOperatedBy: "cluster-manager"}}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub1", Name: operatorv1.ExternalHubKubeConfigSecret},
	})
	leads := &corev1.Secret{}
	l.await(t, "the secret of a hosted hub is watched", func() bool {
		return deps.Client.Get(t.Context(), client.ObjectKey{Namespace: "hub1", Name: operatorv1.ExternalHubKubeConfigSecret}, leads) == nil
	})
	if requests := NewClusterManagerController(deps).requestsForSecret(t.Context(), leads); len(requests) != 1 || requests[0].Name != "hub1" {
		t.Errorf("a change of the secret makes %v be looked at, want hub1", requests)
	}

	pushAgents := func(want int32) func() bool {
		return func() bool {
			deployment := &appsv1.Deployment{}
			return l.exists(t, deployment, "cluster-manager-push-agent", testHubNS) && *deployment.Spec.Replicas == want
		}
	}
	l.await(t, "no push agent runs without a Push cluster", pushAgents(0))
	connection := &fleetv1alpha1.ClusterConnection{}
	connection.Name = "c1"
	connection.Spec = fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member"}
	l.create(t, connection)
	l.await(t, "the push agent runs for a Push cluster", pushAgents(1))
	expect.NoError(t, l.client.Delete(t.Context(), connection))
	l.await(t, "the push agent ends with the last Push cluster", pushAgents(0))

	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationPaused: "true"}
	})
	l.await(t, "the pause shows", func() bool {
		return l.condition(t, operatorv1.ClusterManagerConditionPaused).Status == "True"
	})
}

// await waits until the condition holds.
func (l *lab) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	l.awaitFor(t, eventLimit, what, holds)
}

func (l *lab) awaitFor(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	expect.EventuallyTrue(t, limit, what, holds, func() string {
		var told strings.Builder
		for _, c := range l.get(t).Status.Conditions {
			fmt.Fprintf(&told, "\n%s %s %s: %.200s", c.Type, c.Status, c.Reason, c.Message)
		}
		return "the conditions are" + told.String()
	})
}
