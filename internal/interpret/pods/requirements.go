// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods reads what pods need of a node from their specs.
package pods

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// Requirements are what a pod needs of a node.
type Requirements struct {
	NodeSelector map[string]string
	// HardNodeAffinity is the required node affinity.
	HardNodeAffinity *corev1.NodeSelector
	Tolerations      []corev1.Toleration
	// Requests are those of all containers together, as the scheduler counts:
	// with init containers, sidecars and the overhead of the runtime.
	Requests          corev1.ResourceList
	PriorityClassName string
	// Namespace is that of the pods, if it is another than that of the object.
	Namespace string
}

// IsZero reports whether nothing is needed.
func (r *Requirements) IsZero() bool {
	return len(r.NodeSelector) == 0 && r.HardNodeAffinity == nil && len(r.Tolerations) == 0 &&
		len(r.Requests) == 0 && r.PriorityClassName == "" && r.Namespace == ""
}

// RequirementsFromSpec returns what a pod with this spec needs of a node, nil if it needs nothing. Of
// an odd spec it returns what can be read.
func RequirementsFromSpec(spec map[string]any) *Requirements {
	needs := &Requirements{
		NodeSelector:      textEntries(spec, "nodeSelector"),
		Requests:          podRequests(spec),
		PriorityClassName: fields.String(spec, "priorityClassName"),
	}
	if required := fields.Map(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"); required != nil {
		selector := &corev1.NodeSelector{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(required, selector) == nil {
			needs.HardNodeAffinity = selector
		}
	}
	for _, entry := range fields.List(spec, "tolerations") {
		toleration := corev1.Toleration{}
		if m, ok := entry.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &toleration) == nil {
			needs.Tolerations = append(needs.Tolerations, toleration)
		}
	}
	if needs.IsZero() {
		return nil
	}
	return needs
}

func textEntries(object map[string]any, name string) map[string]string {
	var found map[string]string
	for key, value := range fields.Map(object, name) {
		if text, ok := value.(string); ok {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = text
		}
	}
	return found
}

// podRequests returns what a pod with this spec requests, as the scheduler will
// count it.
func podRequests(spec map[string]any) corev1.ResourceList {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     parseContainers(spec, "containers"),
		InitContainers: parseContainers(spec, "initContainers"),
		Overhead:       quantities(fields.Map(spec, "overhead")),
	}}
	if own := fields.Map(spec, "resources"); own != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: ownRequests(own, pod)}
	}
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	maps.DeleteFunc(list, func(_ corev1.ResourceName, amount resource.Quantity) bool { return amount.IsZero() })
	if len(list) == 0 {
		return nil
	}
	return list
}

// ownRequests returns the requests of the pod as a whole. A limit without a
// request counts if no container requests anything of the kind, as when the
// API server completes a pod.
func ownRequests(resources map[string]any, pod *corev1.Pod) corev1.ResourceList {
	own := quantities(fields.Map(resources, "requests"))
	ofContainers := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	for name, limit := range quantities(fields.Map(resources, "limits")) {
		_, has := own[name]
		if _, counted := ofContainers[name]; !has && !counted {
			own[name] = limit
		}
	}
	return own
}

func parseContainers(spec map[string]any, list string) []corev1.Container {
	var found []corev1.Container
	for _, entry := range fields.List(spec, list) {
		m, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		// A template has its limits only, and the API server takes them for the
		// requests that are missing when it makes pods of it.
		list := quantities(fields.Map(m, "resources", "limits"))
		maps.Copy(list, quantities(fields.Map(m, "resources", "requests")))
		container := corev1.Container{Name: fields.String(m, "name"), Resources: corev1.ResourceRequirements{Requests: list}}
		if policy := fields.String(m, "restartPolicy"); policy != "" {
			container.RestartPolicy = (*corev1.ContainerRestartPolicy)(&policy)
		}
		found = append(found, container)
	}
	return found
}

// quantities returns those entries that are quantities, written as texts or as
// numbers. The list is never nil.
func quantities(object map[string]any) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, value := range object {
		var text string
		switch value := value.(type) {
		case string:
			text = value
		case int64:
			text = strconv.FormatInt(value, 10)
		case float64:
			text = strconv.FormatFloat(value, 'f', -1, 64)
		}
		if amount, err := quantity.ParseChecked(text); err == nil && amount.Sign() >= 0 {
			list[corev1.ResourceName(name)] = amount
		}
	}
	return list
}
