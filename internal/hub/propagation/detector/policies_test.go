// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// TestAPolicyIsFoundByFewNames has a policy of a megabyte that waits for many override policies,
// as one may have been written before webhooks refused it.
func TestAPolicyIsFoundByFewNames(t *testing.T) {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"}}
	p.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "high"}
	for n := range 100_000 {
		p.Spec.DependentOverrides = append(p.Spec.DependentOverrides, fmt.Sprintf("%x", n))
	}
	if found := len(awaitedKeys(p)); found != claims.DependentOverridesMax+1 {
		t.Errorf("it is found by %d values, want %d", found, claims.DependentOverridesMax+1)
	}
	d := DetectionDeps{Events: events.NewDiscardRecorder()} // nothing is read
	if waits, err := d.waitsForOverrides(t.Context(), p, &metav1.PartialObjectMetadata{}); !waits || err != nil {
		t.Errorf("it is applied: %t (%v)", !waits, err)
	}
}
