// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestObjectsOfAWorkThatVanishedStayIfItSaysSo lets works vanish that say what is to stay.
func TestObjectsOfAWorkThatVanishedStayIfItSaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	some := s.work("some", s.configMap("keep-1", "1"), s.configMap("drop-1", "1"))
	some.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan,
		SelectivelyOrphans: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
			{Resource: "configmaps", Namespace: "*", Name: "keep-*"},
		}},
	}
	later := s.work("later", s.configMap("keep-2", "1"))
	before := s.work("before", s.configMap("drop-2", "1"))
	before.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	for _, work := range []*workv1.ManifestWork{some, later, before} {
		s.create(work)
		s.condition(work.Name, "Applied", metav1.ConditionTrue)
	}
	s.change("later", func(w *workv1.ManifestWork) {
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	})
	s.change("before", func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil })
	s.condition("later", "Applied", metav1.ConditionTrue)
	s.condition("before", "Applied", metav1.ConditionTrue)
	first.stop()
	for _, name := range []string{"some", "later", "before"} {
		s.change(name, func(w *workv1.ManifestWork) { w.Finalizers = nil })
		s.delete(name)
	}
	s.start(agentOptions{part: PartOptions{EvictionGracePeriod: time.Millisecond}})
	s.hasNot("drop-1")
	s.hasNot("drop-2")
	for _, name := range []string{"keep-1", "keep-2"} {
		s.eventually(name+" is nobody's", func() error {
			cm, _, err := s.value(name)
			if err == nil && (len(cm.OwnerReferences) != 0 || cm.Labels[workv1.LabelManaged] != "") {
				err = fmt.Errorf("owners are %v, labels %v", cm.OwnerReferences, cm.Labels)
			}
			return err
		})
	}
	s.nothingLeft()
}
