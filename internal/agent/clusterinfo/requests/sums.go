// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// namesMax is how many resources there may be in all pods of a cluster. Who may
// create pods may make up names; what is beyond is not counted.
const namesMax = 128

// Sums are the sums over the pods of a cluster. The zero value has none. It is
// not safe for concurrent use.
type Sums struct {
	pods map[key]place
	// nodes are by name; that of the name "" is for pods without one.
	nodes map[string]*node
	// shapes are what pods request that request the same.
	shapes map[string]*shape
	names  map[string]int // how many shapes have a resource
}

// place is where a pod is, and what it requests there.
type place struct {
	node  *node
	shape *shape
}

type node struct {
	name string
	sum  Sum
}

type shape struct {
	id      string
	amounts []amount
	pods    int
}

// Sum is what a number of pods request.
type Sum struct {
	pods    int64
	amounts []amount
}

// key is a hash of a UID, of half its size. Only a cluster that lies has two pods
// of one.
type key [16]byte

func keyOf(uid types.UID) (k key) {
	hash := fnv.New128a()
	_, _ = hash.Write([]byte(uid)) // it never fails
	hash.Sum(k[:0])
	return k
}

// Replace makes these all pods that there are.
func (s *Sums) Replace(pods []*Pod) {
	*s = Sums{}
	for _, pod := range pods {
		s.Set(pod)
	}
}

// Set takes in a pod that is new or has changed. It tells whether that changes
// a sum.
func (s *Sums) Set(pod *Pod) (changed bool) {
	if pod.finished {
		return s.Delete(pod.UID)
	}
	k := keyOf(pod.UID)
	id := idOf(pod.amounts)
	had, known := s.pods[k]
	if known && had.node.name == pod.node && had.shape.id == id {
		return false
	}
	if known {
		s.leave(had)
	}
	if s.pods == nil {
		s.pods = map[key]place{}
		s.nodes = map[string]*node{}
		s.shapes = map[string]*shape{}
		s.names = map[string]int{}
	}
	s.pods[k] = s.join(pod.node, id, pod.amounts)
	return true
}

// Delete takes out a pod. It tells whether that changes a sum.
func (s *Sums) Delete(uid types.UID) (changed bool) {
	k := keyOf(uid)
	had, known := s.pods[k]
	if known {
		delete(s.pods, k)
		s.leave(had)
	}
	return known
}

// idOf tells amounts from all others.
func idOf(amounts []amount) string {
	var id []byte
	for _, a := range amounts {
		id = append(append(id, a.name...), 0)
		id = binary.BigEndian.AppendUint64(id, uint64(a.value)) //nolint:gosec // any bits will do
	}
	return string(id)
}

// join adds a pod to the sums.
func (s *Sums) join(on, id string, amounts []amount) place {
	p := place{node: s.nodes[on], shape: s.shapes[id]}
	if p.shape == nil {
		p.shape = &shape{id: id, amounts: s.counted(amounts)}
		s.shapes[id] = p.shape
	}
	if p.node == nil {
		p.node = &node{name: strings.Clone(on)} // what it is a part of need not stay
		s.nodes[p.node.name] = p.node
	}
	p.shape.pods++
	p.node.sum.add(p.shape.amounts, 1)
	return p
}

// counted returns those amounts whose resources count.
func (s *Sums) counted(amounts []amount) []amount {
	var counted []amount
	for _, a := range amounts {
		if s.names[a.name] > 0 || len(s.names) < namesMax {
			s.names[a.name]++
			counted = append(counted, a)
		}
	}
	return counted
}

// leave takes a pod from the sums.
func (s *Sums) leave(p place) {
	p.node.sum.add(p.shape.amounts, -1)
	if p.node.sum.pods == 0 {
		delete(s.nodes, p.node.name)
	}
	if p.shape.pods--; p.shape.pods > 0 {
		return
	}
	delete(s.shapes, p.shape.id)
	for _, a := range p.shape.amounts {
		if s.names[a.name]--; s.names[a.name] == 0 {
			delete(s.names, a.name)
		}
	}
}

// add adds the requests of so many pods, which may be negative. What is too much
// for a number wraps around, and is right again when pods leave.
func (s *Sum) add(amounts []amount, pods int64) {
	s.pods += pods
	s.addAmounts(amounts, pods)
}

func (s *Sum) addAmounts(amounts []amount, times int64) {
	for _, a := range amounts {
		i := slices.IndexFunc(s.amounts, func(b amount) bool { return a.name == b.name })
		if i < 0 {
			i = len(s.amounts)
			s.amounts = append(s.amounts, amount{name: a.name})
		}
		if s.amounts[i].value += times * a.value; s.amounts[i].value == 0 {
			s.amounts = slices.Delete(s.amounts, i, i+1)
		}
	}
}

// Taken are the sums at one moment. They do not change.
type Taken struct {
	// Waiting is what pods request that have no node; Placed what all others do.
	Waiting, Placed Sum
	nodes           map[string]Sum
}

// Take returns the sums as they are now.
func (s *Sums) Take() *Taken {
	t := &Taken{nodes: make(map[string]Sum, len(s.nodes))}
	for name, node := range s.nodes {
		sum := Sum{pods: node.sum.pods, amounts: slices.Clone(node.sum.amounts)}
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

// List returns the sum by resource, with the number of pods as "pods"; nil if
// there are none.
func (s Sum) List() map[string]resource.Quantity {
	if s.pods == 0 {
		return nil
	}
	list := map[string]resource.Quantity{string(corev1.ResourcePods): *resource.NewQuantity(s.pods, resource.DecimalSI)}
	for _, a := range s.amounts {
		list[a.name] = a.quantity()
	}
	return list
}

func (a amount) quantity() resource.Quantity {
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

// Left returns what those nodes have left that take new pods.
func (t *Taken) Left(nodes []corev1.Node) []map[string]resource.Quantity {
	var all []map[string]resource.Quantity
	for i := range nodes {
		if !nodes[i].Spec.Unschedulable {
			all = append(all, t.nodes[nodes[i].Name].left(nodes[i].Status.Allocatable))
		}
	}
	return all
}

func (s Sum) left(allocatable corev1.ResourceList) map[string]resource.Quantity {
	left := make(map[string]resource.Quantity, len(allocatable))
	used := s.List()
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
