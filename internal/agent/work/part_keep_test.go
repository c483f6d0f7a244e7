// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestOrphansStay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.configMap("a", "1"))
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	cm := s.has("a", "1")
	if len(cm.OwnerReferences) != 0 || cm.Labels[workv1.LabelManaged] != "" {
		t.Errorf("owners are %v, labels %v", cm.OwnerReferences, cm.Labels)
	}
	s.nothingLeft()
}

func TestOrphansStayIfARuleNamesThem(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.configMap("keep-1", "1"), s.configMap("drop-1", "1"))
	work.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan,
		SelectivelyOrphans: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
			{Resource: "configmaps", Namespace: "*", Name: "keep-*"},
		}},
	}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	s.has("keep-1", "1")
	s.hasNot("drop-1")
	s.nothingLeft()
}

func withStrategy(work *workv1.ManifestWork, name string, strategy workv1.UpdateStrategyType) *workv1.ManifestWork {
	work.Spec.ManifestConfigs = append(work.Spec.ManifestConfigs, workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: name},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: strategy},
		FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}},
	})
	return work
}

func TestAnObjectThatIsCreatedOnlyIsNotChanged(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "old"}, Data: map[string]string{"key": "theirs"}})
	s.create(withStrategy(s.work("w", s.configMap("new", "1"), s.configMap("old", "1")), "*", workv1.UpdateStrategyTypeCreateOnly))
	work := s.condition("w", "Applied", metav1.ConditionTrue)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed", "ConfigMap")
	s.has("new", "1")
	if cm := s.has("old", "theirs"); len(cm.OwnerReferences) != 1 {
		t.Errorf("owners are %v", cm.OwnerReferences)
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("new", "2"), s.configMap("old", "2")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.has("new", "1")
	s.has("old", "theirs")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAnObjectThatIsReadOnlyIsNotWritten(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{part: PartOptions{StatusSyncInterval: 50 * time.Millisecond}})
	s.create(withStrategy(s.work("w", s.configMap("r", "1")), "r", workv1.UpdateStrategyTypeReadOnly))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("w", "Available", metav1.ConditionFalse)
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "r"}, Data: map[string]string{"key": "theirs"}})
	s.condition("w", "Available", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	if cm := s.has("r", "theirs"); len(cm.OwnerReferences) != 0 {
		t.Errorf("owners are %v", cm.OwnerReferences)
	}
}

func TestADeletedRecordIsMadeAgainAndItsObjectsStay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	cm := s.has("a", "1")
	record := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: cm.OwnerReferences[0].Name}}
	if err := s.client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	s.eventually("the object has another owner", func() error {
		again, _, err := s.value("a")
		switch {
		case err != nil:
		case again.UID != cm.UID:
			t.Fatal("it is another object")
		case len(again.OwnerReferences) != 1 || again.OwnerReferences[0].UID == cm.OwnerReferences[0].UID || again.OwnerReferences[0].Name != cm.OwnerReferences[0].Name:
			err = fmt.Errorf("owners are %v", again.OwnerReferences)
		}
		return err
	})
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAKindThatComesLaterIsAppliedThen(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("late", s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g","namespace":%q},"spec":{"size":3}}`, s.ns())))
	work := s.condition("late", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 1, "Applied"), "does not know the kind Gadget of example.com/v1")
	s.contains(message(work, 1, "Available"), "Unknown IncompleteResourceMeta")
	s.contains(message(work, 0, "Applied"), "True")
	s.create(s.work("definition", fmt.Sprintf(widgets, "gadget", "Gadget")))
	s.condition("late", "Applied", metav1.ConditionTrue)
	s.delete("definition")
	s.gone("definition")
	s.condition("late", "Applied", metav1.ConditionFalse)
	s.delete("late")
	s.gone("late")
	s.nothingLeft()
}

func TestAWorkThatWasDeletedWhileNoAgentRanIsCleanedUp(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.create(s.work("v", s.configMap("c", "1"), s.configMap("d", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("v", "Applied", metav1.ConditionTrue)
	first.stop()
	s.delete("w")
	s.change("v", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("d", "2")) })
	s.start(agentOptions{})
	s.gone("w")
	s.hasNot("a")
	s.hasNot("b")
	s.hasNot("c")
	s.has("d", "2")
	s.delete("v")
	s.gone("v")
	s.nothingLeft()
}

func TestObjectsOfAWorkThatVanishedGoAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	s.create(s.work("v", s.configMap("b", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("v", "Applied", metav1.ConditionTrue)
	first.stop()
	// The agent moves to another hub, which has a work v but no w.
	s.change("w", func(w *workv1.ManifestWork) { w.Finalizers = nil })
	s.delete("w")
	s.start(agentOptions{hub: "https://elsewhere", part: PartOptions{EvictionGracePeriod: 1500 * time.Millisecond}})
	s.eventually("the object has two records", func() error {
		cm, _, err := s.value("b")
		if err == nil && len(cm.OwnerReferences) != 2 {
			err = fmt.Errorf("owners are %v", cm.OwnerReferences)
		}
		return err
	})
	s.hasNot("a")
	s.eventually("the new record alone owns the other", func() error {
		cm, _, err := s.value("b")
		if err == nil && len(cm.OwnerReferences) != 1 {
			err = fmt.Errorf("owners are %v", cm.OwnerReferences)
		}
		return err
	})
	s.delete("v")
	s.gone("v")
	s.nothingLeft()
}

func TestObjectsThatAnotherAgentLeftBecomeOurs(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	cm := s.has("a", "1")
	record := &workv1.AppliedManifestWork{}
	s.eventually("the record lists both", func() error {
		if err := s.client.Get(t.Context(), client.ObjectKey{Name: cm.OwnerReferences[0].Name}, record); err != nil {
			return err
		}
		if len(record.Status.AppliedResources) != 2 {
			return errors.New("it does not")
		}
		return nil
	})
	first.stop()
	// As OCM's agent leaves it: no annotation, no label.
	record.Annotations = nil
	if err := s.client.Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		cm := s.has(name, "1")
		cm.Labels = nil
		if err := s.client.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("b", "1")) })
	s.start(agentOptions{})
	s.hasNot("a")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}
