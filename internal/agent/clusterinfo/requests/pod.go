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

	"github.com/capstan-io/capstan/internal/kube/watch"
)

const (
	// perPodMax is how many resources of a pod count, and nameBytesMax how long
	// their names may be. Kubernetes has none that is longer.
	perPodMax    = 16
	nameBytesMax = 320
	// containersMax is how many containers of a pod count, and how many init containers: for each one, all
	// statuses are gone through.
	containersMax = 1000
	// nodeBytesMax is how long the name of a node may be.
	nodeBytesMax = 253
)

// PodRequest is what counts of a pod. Of its metadata it has UID and version only.
type PodRequest struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	node     string
	finished bool
	amounts  []resourceAmount
}

// resourceAmount is how much of a resource is requested: of CPU in thousandths, of all
// else as a number.
type resourceAmount struct {
	name  string
	value int64
}

// PodRequestOf returns what counts of a pod. The UID and the version are as the pod has them.
func PodRequestOf(pod *corev1.Pod) *PodRequest {
	p := &PodRequest{
		node:     watch.TruncateText(pod.Spec.NodeName, nodeBytesMax),
		finished: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	p.UID = pod.UID
	p.ResourceVersion = pod.ResourceVersion
	if p.finished {
		return p
	}
	// As the scheduler counts, also while a pod is resized in place.
	list := resourcehelper.PodRequests(limitContainers(pod), resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	for name, quantity := range list {
		if value := amountValue(name, quantity); value > 0 && len(name) <= nameBytesMax {
			p.amounts = append(p.amounts, resourceAmount{string(name), value})
		}
	}
	slices.SortFunc(p.amounts, func(a, b resourceAmount) int { return cmp.Compare(a.name, b.name) })
	p.amounts = slices.Clip(p.amounts[:min(len(p.amounts), perPodMax)])
	return p
}

// limitContainers returns the pod with no more containers than count.
func limitContainers(pod *corev1.Pod) *corev1.Pod {
	fewer := *pod
	fewer.Spec.Containers = firstContainers(pod.Spec.Containers)
	fewer.Spec.InitContainers = firstContainers(pod.Spec.InitContainers)
	fewer.Status.ContainerStatuses = firstContainers(pod.Status.ContainerStatuses)
	fewer.Status.InitContainerStatuses = firstContainers(pod.Status.InitContainerStatuses)
	return &fewer
}

func firstContainers[T any](list []T) []T { return list[:min(len(list), containersMax)] }

func amountValue(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// DeepCopyObject implements runtime.Object.
func (p *PodRequest) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	c.amounts = slices.Clone(p.amounts)
	return &c
}
