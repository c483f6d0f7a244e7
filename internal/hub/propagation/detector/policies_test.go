// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"strings"
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
	few := p.DeepCopy()
	few.Spec.DependentOverrides = few.Spec.DependentOverrides[:claims.DependentOverridesMax]
	if found := len(awaitedKeys(few)); found != claims.DependentOverridesMax+1 {
		t.Errorf("one with as many as it may have is found by %d values, want %d", found, claims.DependentOverridesMax+1)
	}
	if found := len(awaitedKeys(p)); found > 0 {
		t.Errorf("it is found by %d values, and not applied whatever comes", found)
	}
	d := DetectionDeps{Fleet: fleet.NewFleet(clock.RealClock{}), Events: events.NewDiscardRecorder()} // nothing is read
	facts, err := d.gatherClaimFacts(t.Context(), &metav1.PartialObjectMetadata{}, p)
	reason := decision.DecideClaim(&metav1.PartialObjectMetadata{}, facts)
	if d.reportReason(&metav1.PartialObjectMetadata{}, reason); reason.Code != decision.OverridesInvalid || err != nil {
		t.Errorf("it is applied: %s (%v)", reason.Code, err)
	}
}

// TestLongNamesAreNotTold has policies that wait for what has a name of a megabyte, as they may have been
// written before webhooks refused them: of each object that such a policy selects it was told.
func TestLongNamesAreNotTold(t *testing.T) {
	const told = 1000
	long := strings.Repeat("\x7f", 1<<20)
	for name, spec := range map[string]policyv1alpha1.PropagationSpec{
		"override policy": {DependentOverrides: []string{"images", long}},
		"PriorityClass":   {SchedulePriority: &policyv1alpha1.SchedulePriority{PriorityClassName: long}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"}, Spec: spec}
			if keys := awaitedKeys(p); len(keys) > 0 {
				t.Errorf("it is found by %d values", len(keys))
			}
			d := DetectionDeps{Fleet: fleet.NewFleet(clock.RealClock{})} // nothing is read
			facts, err := d.gatherClaimFacts(t.Context(), &metav1.PartialObjectMetadata{}, p)
			reason := decision.DecideClaim(&metav1.PartialObjectMetadata{}, facts)
			if reason.Code != decision.OverridesInvalid || len(reason.EventNote()) > told || err != nil {
				t.Errorf("%s is told in %d bytes, want %s (%v)", reason.Code, len(reason.EventNote()), decision.OverridesInvalid, err)
			}
		})
	}
}
