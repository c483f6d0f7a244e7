// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
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
	d := DetectionDeps{Fleet: fleet.NewFleet(clock.RealClock{}), Events: events.NewDiscardRecorder()} // nothing is read
	facts, err := d.gatherClaimFacts(t.Context(), &metav1.PartialObjectMetadata{}, p)
	reason := decision.DecideClaim(&metav1.PartialObjectMetadata{}, facts)
	if d.reportReason(&metav1.PartialObjectMetadata{}, reason); reason.Code != decision.OverridesInvalid || err != nil {
		t.Errorf("it is applied: %s (%v)", reason.Code, err)
	}
}
