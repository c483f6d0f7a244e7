// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/agent/nodes"
)

const (
	// namesMax is how many resources there may be in all pods of a cluster. Who may
	// create pods may make up names; what is beyond is not counted, unless each node has it.
	namesMax = 128
	// namesBytesMax is how long their names may be together. With those that each node has, they are shorter than
	// the 8 KiB that the hub takes: of a cluster that says more, it takes nothing.
	namesBytesMax = 7 << 10
)

// nameHasRoom reports whether a resource counts beside so many others, with names of so many bytes.
func nameHasRoom(name string, others, bytes int) bool {
	return others < namesMax && bytes+len(name) <= namesBytesMax || nodes.IsUsualResource(corev1.ResourceName(name))
}

// ClusterSums are the sums over the pods of a cluster. The zero value has none. It is
// not safe for concurrent use.
type ClusterSums struct {
	pods map[uidHash]podPlacement
	// nodes are by name; that of the name "" is for pods without one.
	nodes map[string]*nodeSum
	// shapes are what pods request that request the same.
	shapes map[shapeHash]*requestShape
	// names are those of the resources that count. All shapes have these copies.
	names map[string]*countedName
	// nameBytes is how long the names are.
	nameBytes int
}

// countedName is the name of a resource, and how many shapes have it.
type countedName struct {
	name   string
	shapes int
}

// podPlacement is where a pod is, and what it requests there.
type podPlacement struct {
	node  *nodeSum
	shape *requestShape
}

type nodeSum struct {
	name string
	sum  RequestSum
}

type requestShape struct {
	id      shapeHash
	amounts []resourceAmount
	pods    int
}

// RequestSum is what a number of pods request.
type RequestSum struct {
	pods    int64
	amounts []resourceAmount
}

// uidHash is a hash of a UID, of half its size. Only a cluster that lies has two pods
// of one.
type uidHash [16]byte

func hashPodUID(uid types.UID) (k uidHash) {
	hash := fnv.New128a()
	_, _ = hash.Write([]byte(uid)) // it never fails
	hash.Sum(k[:0])
	return k
}

// ReplacePods makes these all pods that there are.
func (s *ClusterSums) ReplacePods(pods []*PodRequest) {
	*s = ClusterSums{}
	for _, pod := range pods {
		s.SetPod(pod)
	}
}

// SetPod takes in a pod that is new or has changed. It reports whether that changes
// a sum.
func (s *ClusterSums) SetPod(pod *PodRequest) (changed bool) {
	if pod.finished {
		return s.DeletePod(pod.UID)
	}
	k := hashPodUID(pod.UID)
	id := shapeIDOf(pod.amounts)
	had, known := s.pods[k]
	if known && had.node.name == pod.node && had.shape.id == id {
		return false
	}
	if known {
		s.removePod(had)
	}
	if s.pods == nil {
		s.pods = map[uidHash]podPlacement{}
		s.nodes = map[string]*nodeSum{}
		s.shapes = map[shapeHash]*requestShape{}
		s.names = map[string]*countedName{}
	}
	s.pods[k] = s.addPod(pod.node, id, pod.amounts)
	return true
}

// DeletePod takes out a pod. It reports whether that changes a sum.
func (s *ClusterSums) DeletePod(uid types.UID) (changed bool) {
	k := hashPodUID(uid)
	had, known := s.pods[k]
	if known {
		delete(s.pods, k)
		s.removePod(had)
	}
	return known
}

// shapeHash tells amounts from all others. Whoever may create pods may write any names and values, and must not find
// two that are the same.
type shapeHash [16]byte

func shapeIDOf(amounts []resourceAmount) shapeHash {
	var text []byte
	for _, a := range amounts {
		text = append(append(text, a.name...), 0)
		text = binary.BigEndian.AppendUint64(text, uint64(a.value)) //nolint:gosec // any bits will do
	}
	sum := sha256.Sum256(text)
	return shapeHash(sum[:])
}

// addPod adds a pod to the sums.
func (s *ClusterSums) addPod(on string, id shapeHash, amounts []resourceAmount) podPlacement {
	p := podPlacement{node: s.nodes[on], shape: s.shapes[id]}
	if p.shape == nil {
		p.shape = &requestShape{id: id, amounts: s.countedAmounts(amounts)}
		s.shapes[id] = p.shape
	}
	if p.node == nil {
		p.node = &nodeSum{name: strings.Clone(on)} // what it is a part of need not stay
		s.nodes[p.node.name] = p.node
	}
	p.shape.pods++
	p.node.sum.addPodRequests(p.shape.amounts, 1)
	return p
}

// countedAmounts returns those amounts whose resources count.
func (s *ClusterSums) countedAmounts(amounts []resourceAmount) []resourceAmount {
	var counted []resourceAmount
	for _, a := range amounts {
		n := s.names[a.name]
		if n == nil {
			if !nameHasRoom(a.name, len(s.names), s.nameBytes) {
				continue
			}
			n = &countedName{name: a.name}
			s.names[n.name] = n
			s.nameBytes += len(n.name)
		}
		n.shapes++
		counted = append(counted, resourceAmount{n.name, a.value})
	}
	return slices.Clip(counted)
}

// removePod takes a pod from the sums.
func (s *ClusterSums) removePod(p podPlacement) {
	p.node.sum.addPodRequests(p.shape.amounts, -1)
	if p.node.sum.pods == 0 {
		delete(s.nodes, p.node.name)
	}
	if p.shape.pods--; p.shape.pods > 0 {
		return
	}
	delete(s.shapes, p.shape.id)
	for _, a := range p.shape.amounts {
		if n := s.names[a.name]; n.shapes > 1 {
			n.shapes--
		} else {
			delete(s.names, a.name)
			s.nameBytes -= len(a.name)
		}
	}
}

// addPodRequests adds the requests of so many pods, which may be negative. What is too much
// for a number wraps around, and is right again when pods leave.
func (s *RequestSum) addPodRequests(amounts []resourceAmount, pods int64) {
	s.pods += pods
	s.addAmounts(amounts, pods)
}

func (s *RequestSum) addAmounts(amounts []resourceAmount, times int64) {
	for _, a := range amounts {
		i := slices.IndexFunc(s.amounts, func(b resourceAmount) bool { return a.name == b.name })
		if i < 0 {
			i = len(s.amounts)
			s.amounts = append(s.amounts, resourceAmount{name: a.name})
		}
		if s.amounts[i].value += times * a.value; s.amounts[i].value == 0 {
			s.amounts = slices.Delete(s.amounts, i, i+1)
		}
	}
}

// SumsSnapshot are the sums at one moment. They do not change.
type SumsSnapshot struct {
	// Waiting is what pods request that have no node; Placed what all others do.
	Waiting, Placed RequestSum
	nodes           map[string]RequestSum
}

// TakeSnapshot returns the sums as they are now.
func (s *ClusterSums) TakeSnapshot() *SumsSnapshot {
	t := &SumsSnapshot{nodes: make(map[string]RequestSum, len(s.nodes))}
	for name, node := range s.nodes {
		sum := RequestSum{pods: node.sum.pods, amounts: slices.Clone(node.sum.amounts)}
		if name == "" {
			t.Waiting = sum
			continue
		}
		t.nodes[name] = sum
		t.Placed.pods += sum.pods
		t.Placed.addAmounts(sum.amounts, 1)
	}
	return t
}

// ResourceQuantities returns the sum by resource, with the number of pods as "pods"; nil if
// there are none.
func (s RequestSum) ResourceQuantities() map[string]resource.Quantity {
	if s.pods == 0 {
		return nil
	}
	list := map[string]resource.Quantity{string(corev1.ResourcePods): *resource.NewQuantity(s.pods, resource.DecimalSI)}
	for _, a := range s.amounts {
		list[a.name] = a.toQuantity()
	}
	return list
}

func (a resourceAmount) toQuantity() resource.Quantity {
	value := max(0, a.value)
	switch {
	case a.name == string(corev1.ResourceCPU):
		return *resource.NewMilliQuantity(value, resource.DecimalSI)
	case a.name == string(corev1.ResourceMemory), a.name == string(corev1.ResourceEphemeralStorage),
		strings.HasPrefix(a.name, corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(value, resource.BinarySI)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

// RemainingPerNode returns what those nodes have left that take new pods.
func (t *SumsSnapshot) RemainingPerNode(nodes []corev1.Node) []map[string]resource.Quantity {
	var all []map[string]resource.Quantity
	for i := range nodes {
		if !nodes[i].Spec.Unschedulable {
			all = append(all, t.nodes[nodes[i].Name].remainingOf(nodes[i].Status.Allocatable))
		}
	}
	return all
}

func (s RequestSum) remainingOf(allocatable corev1.ResourceList) map[string]resource.Quantity {
	left := make(map[string]resource.Quantity, len(allocatable))
	used := s.ResourceQuantities()
	for name, quantity := range allocatable {
		rest := quantity.DeepCopy()
		rest.Sub(used[string(name)])
		if rest.Sign() < 0 {
			rest = resource.Quantity{}
		}
		left[string(name)] = rest
	}
	return left
}
