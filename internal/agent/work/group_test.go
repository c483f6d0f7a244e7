// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// otherGroup has ConfigMaps, too.
const otherGroup = "alike.example.com"

const otherConfigMaps = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"configmaps.` + otherGroup + `"},
"spec":{"group":"` + otherGroup + `","scope":"Namespaced","names":{"plural":"configmaps","singular":"configmap","kind":"ConfigMap"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"data":{"type":"object","additionalProperties":{"type":"string"}}}}}}]}}`

// alike returns the manifests of two ConfigMaps of one name, each of another group.
func (s *scene) alike(name, value string) []string {
	return []string{
		s.configMap(name, value),
		fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"key":%q}}`, otherGroup, name, s.ns(), value),
	}
}

// theOther waits until the ConfigMap of the other group has the value.
func (s *scene) theOther(name, value string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("configmap %s of the other group is %q", name, value), func() error {
		object := unstructuredOf(schema.GroupVersionKind{Group: otherGroup, Version: "v1", Kind: "ConfigMap"}, s.ns(), name)
		if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if got, _, err := unstructured.NestedString(object.Object, "data", "key"); err != nil || got != value {
			return fmt.Errorf("it is %q: %w", got, err)
		}
		return nil
	})
}

// TestOfTwoObjectsOfOneNameTheGroupDecidesWhichIsMeant has two objects of one name and resource in different groups, of which
// configs and rules name one.
func TestOfTwoObjectsOfOneNameTheGroupDecidesWhichIsMeant(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("definition", otherConfigMaps))
	s.condition("definition", "Applied", metav1.ConditionTrue)
	work := s.work("w", s.alike("a", "1")...)
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: otherGroup, Resource: "configmaps", Namespace: s.ns(), Name: "a"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly},
		FeedbackRules:      paths("ready", ".ready"),
	}}
	work.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan,
		SelectivelyOrphans: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
			{Group: otherGroup, Resource: "configmaps", Namespace: s.ns(), Name: "a"},
		}},
	}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.theOther("a", "1")
	s.tells("w", 0, "StatusFeedbackSynced", "No feedback rule applies to this object.")
	s.tells("w", 1, "StatusFeedbackSynced", "The fields were read.")

	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.alike("a", "2")...) })
	s.has("a", "2")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.theOther("a", "1")

	s.delete("w")
	s.gone("w")
	s.hasNot("a")
	s.theOther("a", "1")
}
