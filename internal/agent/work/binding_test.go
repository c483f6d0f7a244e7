// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestWorksOfBindings runs agents on works that bindings made.
func TestWorksOfBindings(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, test := range map[string]func(*scene){
		"the state of an object is reported": testState,
	} {
		t.Run(name, func(t *testing.T) {
			test(l.scene(t, "b-"+strings.Trim(strings.ReplaceAll(name, " ", "-")[:min(len(name), 35)], "-")))
		})
	}
}

// ofBinding returns the work as a binding makes it.
func ofBinding(work *workv1.ManifestWork) *workv1.ManifestWork {
	work.Labels = map[string]string{v1alpha1.LabelPermanentID: "id-of-" + work.Name}
	return work
}

func testState(s *scene) {
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	work := s.reports("w", 0, `health={"string":"Unhealthy"}`)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "True StatusFeedbackSynced")
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}`)
	s.reports("w", 0, `status={"jsonRaw":"{\"availableReplicas\":3,\"observedGeneration\":1,`)
	s.reports("w", 0, `health={"string":"Healthy"}`)
	s.status(deploymentKind, "d", fmt.Sprintf(`{"observedGeneration":1,"conditions":[{"type":"A","status":"True","message":%q}]}`, strings.Repeat("x", workv1.StatusSizeMax)))
	work = s.reports("w", 0, `health={"string":"Unhealthy"}`)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed", `"status"`, "at most 262144")
	s.status(deploymentKind, "d", fmt.Sprintf(`{"observedGeneration":1,"conditions":[{"type":"A","status":"True","message":%q}]}`, strings.Repeat("x", workv1.StatusSizeMax-2000)))
	s.reports("w", 0, `status={"jsonRaw":"{\"conditions\"`)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}
