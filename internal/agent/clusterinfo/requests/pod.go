// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/capstan-io/capstan/internal/agent/nodes"
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

// ResourceNames are the names of resources in pods that were reduced and not taken in yet: each is kept once. Beyond
// what a report has room for, only those count that each node has. The zero value has none. It is not safe for concurrent use.
type ResourceNames struct {
	known map[string]string
	bytes int
}

// ForgetNames forgets the names, as the pods have been taken in.
func (n *ResourceNames) ForgetNames() {
	clear(n.known)
	n.bytes = 0
}

// internName returns the one copy of a name, unless there are too many others.
func (n *ResourceNames) internName(name string) (interned string, counts bool) {
	interned, counts = n.known[name]
	if counts || len(name) > nameBytesMax || !nameHasRoom(name, len(n.known), n.bytes) {
		return interned, counts
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	interned = strings.Clone(name)
	n.known[interned] = interned
	n.bytes += len(interned)
	return interned, true
}

// PodRequestOf returns what counts of a pod. The UID and the version are as the pod has them.
func (n *ResourceNames) PodRequestOf(pod *corev1.Pod) *PodRequest {
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
	for _, name := range slices.SortedFunc(maps.Keys(list), nodes.CompareResources) {
		value := amountValue(name, list[name])
		if value <= 0 || len(p.amounts) == perPodMax {
			continue
		}
		if interned, counts := n.internName(string(name)); counts {
			p.amounts = append(p.amounts, resourceAmount{interned, value})
		}
	}
	p.amounts = slices.Clip(p.amounts)
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
