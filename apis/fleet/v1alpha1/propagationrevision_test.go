// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestARevisionMayBeLabelledAndNotChanged(t *testing.T) {
	c := newClient(t)
	revision := &fleetv1alpha1.PropagationRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: fleetv1alpha1.PropagationRevisionSpec{
			RolloutName: "web", BindingName: "web", Revision: 1,
			Content: []byte{0xfb, 0xff, 0xff}, // +/// as JSON
		},
	}
	if err := c.Create(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	revision.Labels = map[string]string{"example.com/kept": "true"}
	if err := c.Update(t.Context(), revision); err != nil {
		t.Errorf("a label: %v", err)
	}
	revision.Spec.Content = []byte{0xfb, 0xff, 0xfe}
	if err := c.Update(t.Context(), revision); !apierrors.IsInvalid(err) {
		t.Errorf("another content: got %v, want that it is invalid", err)
	}
}
