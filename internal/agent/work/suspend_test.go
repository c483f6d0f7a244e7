// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestASuspendedWorkWaitsUntilThatIsLifted suspends a work that is on the member and one that is not. Works
// that come later tell when the agent has seen it all.
func TestASuspendedWorkWaitsUntilThatIsLifted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	suspend := func(w *workv1.ManifestWork) {
		w.Annotations = map[string]string{workv1.AnnotationSuspendDispatching: "true"}
	}
	lift := func(w *workv1.ManifestWork) { w.Annotations = nil }
	s.start(agentOptions{})
	s.create(s.work("there", s.configMap("a", "1")))
	s.condition("there", "Applied", metav1.ConditionTrue)
	s.change("there", suspend)
	s.sums("there", "Dispatching", "False SuspendDispatching")
	s.change("there", func(w *workv1.ManifestWork) {
		w.Spec = s.work("there", s.configMap("a", "2"), s.configMap("more", "1")).Spec
	})
	never := s.work("never", s.configMap("never", "1"))
	suspend(never)
	s.create(never)
	s.condition("never", "Dispatching", metav1.ConditionFalse)
	s.condition("there", "Dispatching", metav1.ConditionFalse) // of the new generation
	s.create(s.work("later", s.configMap("later", "1")))
	s.condition("later", "Applied", metav1.ConditionTrue)
	s.has("a", "1")
	for _, name := range []string{"more", "never"} {
		if _, _, err := s.value(name); err == nil {
			t.Errorf("ConfigMap %s of a suspended work is on the member", name)
		}
	}

	s.change("there", lift)
	s.has("a", "2")
	s.has("more", "1")
	s.sums("there", "Dispatching", "True Dispatching")

	s.change("there", suspend)
	s.sums("there", "Dispatching", "False SuspendDispatching")
	for _, name := range []string{"there", "never", "later"} { // suspended or not
		s.delete(name)
		s.gone(name)
	}
	s.nothingLeft()
}
