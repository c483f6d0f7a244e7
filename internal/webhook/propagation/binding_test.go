// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

func TestMistakesInBindings(t *testing.T) {
	binding := func(dependencies string, components ...string) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{}
		if dependencies != "" {
			b.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: dependencies}
		}
		for _, name := range components {
			b.Spec.Components = append(b.Spec.Components, workv1alpha2.Component{Name: name})
		}
		return b
	}
	requests := func(cpu string) *workv1alpha2.ResourceBinding {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("0")}
		b := binding("", "a")
		b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: list}
		b.Spec.Components[0].ReplicaRequirements = &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: list}
		return b
	}
	for name, c := range map[string]struct {
		binding *workv1alpha2.ResourceBinding
		want    []string
	}{
		"requests": {binding: requests("500m")},
		"requests of less than nothing": {binding: requests("-1000"), want: []string{
			`spec.replicaRequirements.resourceRequest[cpu]: Invalid value: "-1k": must not be less than 0`,
			`spec.components[0].replicaRequirements.resourceRequest[cpu]: Invalid value: "-1k": must not be less than 0`,
		}},
		"none":              {binding: binding(`[{"apiVersion":"v1","kind":"Secret","namespace":"a","name":"b"},{"apiVersion":"v1","kind":"Secret","labelSelector":{}}]`, "a", "b")},
		"no annotation":     {binding: binding("")},
		"no JSON":           {binding: binding("a"), want: []string{`metadata.annotations[resourcebinding.karmada.io/dependencies]: Invalid value: "a": want a JSON list`}},
		"no list":           {binding: binding("{}"), want: []string{`metadata.annotations[resourcebinding.karmada.io/dependencies]`}},
		"parts that mix up": {binding: binding("", "a", "a"), want: []string{`spec.components[1].name: Duplicate value: "a"`}},
	} {
		t.Run(name, func(t *testing.T) { told(t, nil, checkBinding(c.binding, &c.binding.Spec), nil, c.want) })
	}
}
