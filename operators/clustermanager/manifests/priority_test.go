// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAgentsShareNoPriorityLevelWithTheHub looks at who may keep the places of a level that the
// programs of the hub need.
func TestAgentsShareNoPriorityLevelWithTheHub(t *testing.T) {
	for name, h := range map[string]Hub{"everything": everything(), "hosted": hosted()} {
		users := map[string]map[flowcontrolv1.SubjectKind]bool{}
		for _, object := range PriorityObjects(h) {
			u, err := render.ToUnstructured(object)
			expect.NoError(t, err)
			if u.GetKind() != "FlowSchema" {
				continue
			}
			schema := &flowcontrolv1.FlowSchema{}
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, schema))
			level := schema.Spec.PriorityLevelConfiguration.Name
			if users[level] == nil {
				users[level] = map[flowcontrolv1.SubjectKind]bool{}
			}
			for _, rule := range schema.Spec.Rules {
				for _, subject := range rule.Subjects {
					users[level][subject.Kind] = true
				}
			}
		}
		if len(users) != 2 {
			t.Errorf("%s: there are %d levels, want one of the hub and one of agents", name, len(users))
		}
		for level, kinds := range users {
			if len(kinds) != 1 {
				t.Errorf("%s: accounts of the hub and agents are both in %q", name, level)
			}
		}
	}
}
