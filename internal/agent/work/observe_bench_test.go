// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
)

// BenchmarkStatusOfUnchangedWork makes the status of a work of 100 objects with
// three fields each, of which nothing changed.
func BenchmarkStatusOfUnchangedWork(b *testing.B) {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	p := &pass{work: work, stored: work, plan: &plan{observers: []*observer{{feedback: feedback.Compile(wellKnown())}}}}
	for i := range 100 {
		it := &item{ordinal: i, resolved: true, observation: &observation{observer: p.plan.observers[0], seen: "1", presence: presenceYes}}
		it.manifest.Name = fmt.Sprintf("object-%d", i)
		it.outcome.presence = presenceYes
		it.observation.values = make([]workv1.FeedbackValue, 3)
		p.plan.items = append(p.plan.items, it)
	}
	b.ReportAllocs()
	for b.Loop() {
		work.Status.ResourceStatus.Manifests = p.manifestConditions(work.Status.ResourceStatus.Manifests)
		p.setFeedbackCondition()
		p.setRuleConditions()
	}
}
