// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/dedicated"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// etcdQuota is the limit of the database in tests, which that of a new hub is
	// far below.
	etcdQuota = 32 << 20
	// fillBytes is about the most that an object may have.
	fillBytes = 900 << 10
)

// TestEtcdThatIsFullIsTold fills an etcd until it stores nothing more.
func TestEtcdThatIsFullIsTold(t *testing.T) {
	admin := dedicated.StartProcesses(t, etcdQuota).AdminClient()
	h := start(t)
	h.c.hubs.connect = func(*rest.Config) (client.Client, error) { return admin, nil }
	h.grant()
	h.class()
	h.plane()
	h.install()

	text := strings.Repeat("x", fillBytes)
	var err error
	for n := 0; err == nil && n < 2*etcdQuota/fillBytes; n++ {
		err = admin.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("filler-%d", n)}, Data: map[string]string{"text": text},
		})
	}
	if err == nil || !strings.Contains(err.Error(), outOfSpace) {
		t.Fatalf("etcd takes everything: %v", err)
	}
	h.walk() // nothing tells that anything is wrong, and nothing has to be written
	h.expect(fleetv1alpha1.ControlPlaneConditionEtcdReady, metav1.ConditionTrue, fleetv1alpha1.ControlPlaneReasonAsExpected, "")

	manager := h.deployment(fleetv1alpha1.ControlPlaneControllerManagerSuffix)
	manager.Status.ReadyReplicas, manager.Status.AvailableReplicas = 0, 0
	expect.NoError(t, h.admin.Status().Update(t.Context(), manager))
	h.walk()
	for kind, status := range map[string]metav1.ConditionStatus{
		fleetv1alpha1.ControlPlaneConditionEtcdReady: metav1.ConditionFalse, fleetv1alpha1.ControlPlaneConditionAvailable: metav1.ConditionFalse,
		fleetv1alpha1.ControlPlaneConditionDegraded: metav1.ConditionTrue,
	} {
		h.expect(kind, status, fleetv1alpha1.ControlPlaneReasonEtcdOutOfSpace, "defragment")
	}
}
