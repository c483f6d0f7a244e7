// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

func TestTheControllersOfTheHubEnd(t *testing.T) {
	pod := func(namespace, name, of string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{operatorv1.LabelCreatedByClusterManager: of},
		}}
	}
	host := fake.NewClientBuilder().WithObjects(
		pod("fleet", "fleet-propagation-controller", "fleet"), pod("fleet", "fleet-work-controller", "fleet"),
		pod("fleet", "somebody", "other"), pod("other", "other-work-controller", "other"),
	).Build()
	w := &restoreRun{host: host, plane: manifests.Plane{Name: "fleet"}, waits: install.Waiter{Client: host, Timeout: time.Minute}}

	if err := w.restartControllers(t.Context(), ""); err != nil {
		t.Fatal(err)
	}

	left := &corev1.PodList{}
	if err := host.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range left.Items {
		names = append(names, one.Name)
	}
	if want := []string{"somebody", "other-work-controller"}; !slices.Equal(names, want) {
		t.Errorf("left are %q, want %q", names, want)
	}
}
