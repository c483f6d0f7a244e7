// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// BenchmarkStatusOfUnchangedWork makes the status of a work of 100 objects with
// three fields each, of which nothing changed.
func BenchmarkStatusOfUnchangedWork(b *testing.B) {
	work := &workv1.ManifestWork{}
	work.UID, work.Generation = "uid", 1
	for i := range 100 {
		raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%d","namespace":"n"}}`, i)
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "n", Name: "*"},
		FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}},
	}}
	p, _ := plan.ForManifestWork(work, nil, plan.HealthOptions{})
	err := p.ResolveItems(b.Context(), p.Items, work, plan.KindFinder{Rules: &rules.RuleSetCache{}, Find: func(schema.GroupVersionKind) (apply.Resource, error) {
		resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		return apply.Resource{GroupVersionResource: resource, Namespaced: true}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	for _, it := range p.Items {
		it.Outcome.Presence = plan.PresenceYes
		it.Observation.Seen, it.Observation.Presence = "1", plan.PresenceYes
		it.Observation.Values = make([]workv1.FeedbackValue, 3)
	}
	b.ReportAllocs()
	for b.Loop() {
		ComposeStatus(PassOutcomes{Work: work, Plan: p, Now: time.Unix(1700000000, 0)}, &work.Status)
	}
}
