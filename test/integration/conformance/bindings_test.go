// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// bindings is what differs for works that bindings made.
func bindings() []testCase {
	return []testCase{
		{name: "the status and the health of the object of a binding are reported, and follow the object", run: stateOfBinding},
		{name: "an object that exists already is left alone until the annotation says to overwrite it", run: conflictOfBinding},
	}
}

// bind delivers a work as a binding does.
func (s *scene) bind(name, spec string) {
	s.Helper()
	work := s.work(name, spec)
	work.Labels = map[string]string{v1alpha1.LabelPermanentID: s.id + "-" + name}
	if err := s.hub.client.Create(s.Context(), work); err != nil {
		s.Fatal(err)
	}
}

func stateOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf(deployment))
	s.applied("a")
	s.ready(1)
	s.reports("a", v1alpha1.FeedbackHealth, "Unhealthy")
	s.ready(2)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
	s.reports("a", v1alpha1.FeedbackStatus, `{"availableReplicas":2,"generation":1,"observedGeneration":1,"readyReplicas":2,"replicas":2,"updatedReplicas":2}`)
}

func conflictOfBinding(s *scene) {
	s.namespace()
	s.admin(configMap("a", "theirs"))
	s.bind("a", manifestsOf(configMap("a", "ours")))
	s.message("a", 0, workv1.ManifestConditionApplied, "False", "already exists in the cluster "+s.clusterName(), "Karmada will not manage this resource")
	s.reports("a", v1alpha1.FeedbackHealth, "Unknown")
	s.has("a", "theirs")
	s.deliver("a", manifestsOf(strings.Replace(configMap("a", "ours"), "metadata: {", "metadata: {annotations: {work.karmada.io/conflict-resolution: overwrite}, ", 1)))
	s.has("a", "ours")
	s.applied("a")
}
