// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// rivals are the ways in which a work can treat an object that another has, too.
func rivals() map[string]*workv1.UpdateStrategy {
	ssa := func(force bool, manager string) *workv1.UpdateStrategy {
		return &workv1.UpdateStrategy{
			Type:            workv1.UpdateStrategyTypeServerSideApply,
			ServerSideApply: &workv1.ServerSideApplyConfig{Force: force, FieldManager: manager},
		}
	}
	return map[string]*workv1.UpdateStrategy{
		"update":   {Type: workv1.UpdateStrategyTypeUpdate},
		"ssa":      ssa(false, ""),
		"force":    ssa(true, ""),
		"named":    ssa(true, "work-agent-mine"),
		"create":   {Type: workv1.UpdateStrategyTypeCreateOnly},
		"readonly": {Type: workv1.UpdateStrategyTypeReadOnly},
	}
}

func withUpdate(work *workv1.ManifestWork, strategy *workv1.UpdateStrategy) *workv1.ManifestWork {
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
		UpdateStrategy:     strategy,
	}}
	return work
}

// TestRivalWorks lets each strategy meet each other one at one object, and
// takes the first work away then.
func TestRivalWorks(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	// overwrites tells which strategies write values over those of CreateOnly.
	overwrites := map[string]bool{"update": true, "force": true, "named": true}
	keeps := func(strategy string) bool { return strategy != "create" && strategy != "readonly" }
	pairs := func(do func(first, second, object string)) {
		for first := range rivals() {
			for second := range rivals() {
				do(first, second, first+"-"+second)
			}
		}
	}
	pairs(func(first, _, object string) {
		s.create(withUpdate(s.work(object+"-1", s.configMap(object, "1")), rivals()[first]))
	})
	pairs(func(_, _, object string) { s.condition(object+"-1", "Applied", metav1.ConditionTrue) })
	pairs(func(_, second, object string) {
		s.create(withUpdate(s.work(object+"-2", s.configMap(object, "2")), rivals()[second]))
	})
	pairs(func(first, second, object string) {
		switch {
		case !keeps(second):
			s.condition(object+"-2", "Applied", metav1.ConditionTrue)
			if first != "readonly" {
				s.has(object, "1")
			}
		case first == "readonly", first == "create" && overwrites[second]:
			s.condition(object+"-2", "Applied", metav1.ConditionTrue)
			s.has(object, "2")
		default:
			work := s.condition(object+"-2", "Applied", metav1.ConditionFalse)
			s.contains(message(work, 0, "Applied"), "AppliedManifestFailed", ".data.key", fmt.Sprintf("ManifestWork %q", object+"-1"), "do not overwrite")
			s.has(object, "1")
		}
		s.condition(object+"-1", "Applied", metav1.ConditionTrue)
	})
	pairs(func(_, _, object string) { s.delete(object + "-1") })
	pairs(func(first, second, object string) {
		s.gone(object + "-1")
		s.condition(object+"-2", "Applied", metav1.ConditionTrue)
		if keeps(second) {
			s.has(object, "2")
		}
	})
	pairs(func(_, _, object string) { s.delete(object + "-2") })
	pairs(func(_, _, object string) { s.gone(object + "-2") })
	s.nothingLeft()
}

func TestTheNameOfAFieldManagerBeginsWithOurs(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	strategy := rivals()["named"]
	strategy.ServerSideApply.FieldManager = "kubectl"
	err := s.client.Create(t.Context(), withUpdate(s.work("w", s.configMap("a", "1")), strategy))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "^work-agent") {
		t.Errorf("got error %v, want that the pattern is ^work-agent", err)
	}
}

func TestWorksOfTwoHubsDoNotFight(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	other := s.scene(t, s.cluster+"-b")
	other.start(agentOptions{agentID: "agent-of-" + other.cluster})
	for _, strategy := range []string{"update", "force"} {
		object := "a-" + strategy
		s.create(withUpdate(s.work("one-"+strategy, s.configMap(object, "1")), rivals()[strategy]))
		s.condition("one-"+strategy, "Applied", metav1.ConditionTrue)
		other.create(withUpdate(other.work("two-"+strategy, s.configMap(object, "2")), rivals()[strategy]))
		work := other.condition("two-"+strategy, "Applied", metav1.ConditionFalse)
		s.contains(message(work, 0, "Applied"), ".data.key", fmt.Sprintf("ManifestWork %q of another hub", "one-"+strategy))
		s.delete("one-" + strategy)
		s.gone("one-" + strategy)
		other.condition("two-"+strategy, "Applied", metav1.ConditionTrue)
		s.has(object, "2")
	}
}

func TestTwoWorksWithOneManagerAndTheSameValuesBothApply(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	manifest := func(extra string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":%q},"data":{"key":"1",%q:"x"}}`, s.ns(), extra)
	}
	s.create(withUpdate(s.work("one", manifest("of-one")), rivals()["ssa"]))
	s.condition("one", "Applied", metav1.ConditionTrue)
	s.create(withUpdate(s.work("two", manifest("of-two")), rivals()["ssa"]))
	s.condition("two", "Applied", metav1.ConditionTrue)
	s.condition("one", "Applied", metav1.ConditionTrue)
	if cm := s.has("a", "1"); cm.Data["of-one"] != "x" || cm.Data["of-two"] != "x" || len(cm.OwnerReferences) != 2 {
		t.Errorf("data is %v, owners are %v", cm.Data, cm.OwnerReferences)
	}
	s.delete("one")
	s.gone("one")
	s.eventually("what only the first had goes, and the second uses the name that it asks for", func() error {
		cm, _, err := s.value("a")
		if err != nil {
			return err
		}
		var managers []string
		for _, entry := range cm.ManagedFields {
			if entry.Operation == metav1.ManagedFieldsOperationApply {
				managers = append(managers, entry.Manager)
			}
		}
		if _, there := cm.Data["of-one"]; there || cm.Data["of-two"] != "x" || len(managers) != 1 || managers[0] != "work-agent" {
			return fmt.Errorf("data is %v, managers are %v", cm.Data, managers)
		}
		return nil
	})
}

func TestAStrategyThatChangesLeavesNothingOfTheOneBefore(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	manifest := func(keys ...string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":%q},"data":{%q:"x","key":"1"}}`, s.ns(), keys[0])
	}
	s.create(withUpdate(s.work("w", manifest("create")), rivals()["create"]))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := "create"
	for _, strategy := range []string{"update", "ssa", "named", "update"} {
		s.change("w", func(w *workv1.ManifestWork) { withUpdate(w, rivals()[strategy]) })
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, manifest(strategy)) })
		s.eventually("only the fields of "+strategy+" are there", func() error {
			cm, _, err := s.value("a")
			if err != nil {
				return err
			}
			if _, there := cm.Data[before]; there || cm.Data[strategy] != "x" {
				return fmt.Errorf("data is %v, managers are %v", cm.Data, cm.ManagedFields)
			}
			return nil
		})
		before = strategy
	}
}

func TestTheFirstOfSeveralConfigsThatMatchCounts(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.configMap("a-1", "1"), s.configMap("b-1", "1"))
	config := func(name string, strategy workv1.UpdateStrategyType) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: s.ns()[:3] + "*", Name: name},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: strategy},
		}
	}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{
		config("a-*", workv1.UpdateStrategyTypeCreateOnly), config("*", workv1.UpdateStrategyTypeUpdate), config("b-1", workv1.UpdateStrategyTypeCreateOnly),
	}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a-1", "2"), s.configMap("b-1", "2")) })
	s.has("b-1", "2")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.has("a-1", "1")
}

func TestAWorkThatWasNotKnownFirstDoesNotWinByARestart(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("one", s.configMap("a", "1")))
	s.condition("one", "Applied", metav1.ConditionTrue)
	s.create(s.work("two", s.configMap("a", "2")))
	s.condition("two", "Applied", metav1.ConditionFalse)
	cm := s.has("a", "1")
	for range 3 {
		first.stop()
		first = s.start(agentOptions{})
		s.create(s.work("marker", s.configMap("m", "1")))
		s.condition("marker", "Applied", metav1.ConditionTrue)
		s.delete("marker")
		s.gone("marker")
		s.condition("two", "Applied", metav1.ConditionFalse)
		if again := s.has("a", "1"); again.ResourceVersion != cm.ResourceVersion {
			t.Errorf("the object was written: %v", again.ManagedFields)
		}
	}
}

func TestADeploymentOfTwoWorksLosesOneOfThemAndNothingElse(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("one", s.deployment(2, "i:1")))
	s.condition("one", "Applied", metav1.ConditionTrue)
	two := s.work("two", s.deployment(2, "i:1"))
	two.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: "d"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly},
	}}
	s.create(two)
	s.condition("two", "Applied", metav1.ConditionTrue)
	s.delete("one")
	s.gone("one")
	d := s.getDeployment()
	if len(d.OwnerReferences) != 1 || d.Spec.Template.Spec.Containers[0].Image != "i:1" {
		t.Errorf("owners are %v, containers %v", d.OwnerReferences, d.Spec.Template.Spec.Containers)
	}
	s.delete("two")
	s.gone("two")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
		t.Errorf("reading the deployment: %v", err)
	}
}
