// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
)

const (
	// perPodMax is how many resources of a pod count, and nameBytesMax how long
	// their names may be. Kubernetes has none that is longer.
	perPodMax    = 16
	nameBytesMax = 320
	// containersMax is how many containers of a pod count, and how many init containers: for each one, all
	// statuses are gone through.
	containersMax = 1000
)

// Pod is what counts of a pod. Of its metadata it has UID and version only.
type Pod struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	node     string
	finished bool
	amounts  []amount
}

// amount is how much of a resource is requested: of CPU in thousandths, of all
// else as a number.
type amount struct {
	name  string
	value int64
}

// Of returns what counts of a pod.
func Of(pod *corev1.Pod) *Pod {
	p := &Pod{
		node:     pod.Spec.NodeName,
		finished: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	p.UID = pod.UID
	p.ResourceVersion = pod.ResourceVersion
	if p.finished {
		return p
	}
	// As the scheduler counts, also while a pod is resized in place.
	list := resourcehelper.PodRequests(few(pod), resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	for name, quantity := range list {
		if value := valueOf(name, quantity); value > 0 && len(name) <= nameBytesMax {
			p.amounts = append(p.amounts, amount{string(name), value})
		}
	}
	slices.SortFunc(p.amounts, func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	p.amounts = slices.Clip(p.amounts[:min(len(p.amounts), perPodMax)])
	return p
}

// few returns the pod with no more containers than count.
func few(pod *corev1.Pod) *corev1.Pod {
	fewer := *pod
	fewer.Spec.Containers = first(pod.Spec.Containers)
	fewer.Spec.InitContainers = first(pod.Spec.InitContainers)
	fewer.Status.ContainerStatuses = first(pod.Status.ContainerStatuses)
	fewer.Status.InitContainerStatuses = first(pod.Status.InitContainerStatuses)
	return &fewer
}

func first[T any](list []T) []T { return list[:min(len(list), containersMax)] }

func valueOf(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// DeepCopyObject implements runtime.Object.
func (p *Pod) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	c.amounts = slices.Clone(p.amounts)
	return &c
}
