// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
)

func TestTheNamespaceOfRequirements(t *testing.T) {
	for name, c := range map[string]struct {
		needs *interpret.Requirements
		want  string
	}{
		"nothing is needed":        {nil, "shop"},
		"of the object":            {&interpret.Requirements{PriorityClassName: "high"}, "shop"},
		"of an interpreter's word": {&interpret.Requirements{Namespace: "jobs"}, "jobs"},
	} {
		if got := replicaNeeds(c.needs, "shop").Namespace; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestHostileNeedsAreBounded has pod templates that need less than nothing, or more than bindings say.
func TestHostileNeedsAreBounded(t *testing.T) {
	needs := &interpret.Requirements{
		Requests:         corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1000"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		Tolerations:      make([]corev1.Toleration, 1000),
		HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1000)},
	}
	says := replicaNeeds(needs, "shop")
	if _, negative := says.ResourceRequest[corev1.ResourceCPU]; negative || len(says.ResourceRequest) != 1 || len(needs.Requests) != 2 {
		t.Errorf("%v is requested, want what is more than nothing", says.ResourceRequest)
	}
	if claim := says.NodeClaim; len(claim.Tolerations) != claimListMax || len(claim.HardNodeAffinity.NodeSelectorTerms) != claimListMax {
		t.Errorf("the binding says %d tolerations and %d terms, want %d each", len(claim.Tolerations), len(claim.HardNodeAffinity.NodeSelectorTerms), claimListMax)
	}
	if len(needs.HardNodeAffinity.NodeSelectorTerms) != 1000 {
		t.Error("the needs were changed")
	}
	if err := checkNeeds(needs); err != nil {
		t.Error(err)
	}
	for i := range view.RequestsMax {
		needs.Requests[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
	}
	if err := checkNeeds(needs); err == nil {
		t.Errorf("%d resources may be requested", len(needs.Requests))
	}
}
