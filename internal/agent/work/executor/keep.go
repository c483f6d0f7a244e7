// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"container/list"
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// keptMax is how many decisions are kept, about 200 bytes each.
	keptMax = 4096
	// keepYes and keepNo are for how long a decision is kept if no role and no
	// binding changes: the API server may have other sources of permissions.
	keepYes = 2 * time.Minute
	keepNo  = 10 * time.Second
	// settleTime is for how long after a change of roles or bindings nothing is
	// kept that it could be about: an API server may decide by what it knew before.
	settleTime = 3 * time.Second
	// settlingMax is how many namespaces may settle before those that have are
	// forgotten.
	settlingMax = 1024
)

// accessQuestion is what a decision is about.
type accessQuestion struct {
	subject Subject
	access  Access
}

// accessDecision is what the server said, and when.
type accessDecision struct {
	question accessQuestion
	may      bool
	until    time.Time
}

// decisionCache keeps the decisions of another Reviewer. It keeps none unless it knows
// of all changes of roles and bindings.
type decisionCache struct {
	reviewer Reviewer
	clock    clock.PassiveClock
	size     int
	changed  func()

	mu sync.Mutex
	// blind are the resources whose changes are not heard of.
	blind     map[string]struct{}
	decisions map[accessQuestion]*list.Element
	recent    *list.List // of *decision, the one that was used last in front
	// change counts the changes of permissions.
	change int
	// settling is by when the API servers know the last change in a namespace;
	// that without a name stands for all.
	settling map[string]time.Time
}

func newDecisionCache(reviewer Reviewer, clock clock.PassiveClock, size int) *decisionCache {
	k := &decisionCache{
		reviewer: reviewer, clock: clock, size: size, changed: func() {},
		blind: map[string]struct{}{}, decisions: map[accessQuestion]*list.Element{}, recent: list.New(),
		settling: map[string]time.Time{},
	}
	for _, resource := range permissionResources() {
		k.blind[resource.Resource] = struct{}{}
	}
	return k
}

// May is part of Reviewer.
func (k *decisionCache) May(ctx context.Context, subject Subject, access Access) (bool, error) {
	q := accessQuestion{subject, access}
	may, known, change := k.lookUpDecision(q)
	if known {
		return may, nil
	}
	may, err := k.reviewer.May(ctx, subject, access)
	if err != nil {
		return false, err
	}
	k.storeDecision(q, may, change)
	return may, nil
}

// lookUpDecision returns a decision that is kept, and the count of changes at the time.
func (k *decisionCache) lookUpDecision(q accessQuestion) (may, known bool, change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	element, ok := k.decisions[q]
	if !ok {
		return false, false, k.change
	}
	d, _ := element.Value.(*accessDecision)
	if k.clock.Now().After(d.until) {
		k.evictDecision(element)
		return false, false, k.change
	}
	k.recent.MoveToFront(element)
	return d.may, true, k.change
}

// storeDecision keeps a decision, unless permissions may have changed since the
// question.
func (k *decisionCache) storeDecision(q accessQuestion, may bool, change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if len(k.blind) > 0 || change != k.change || now.Before(k.settling[""]) || now.Before(k.settling[q.access.Namespace]) {
		return
	}
	if element, ok := k.decisions[q]; ok {
		k.evictDecision(element)
	}
	d := &accessDecision{question: q, may: may, until: now.Add(keepNo)}
	if may {
		d.until = now.Add(keepYes)
	}
	k.decisions[q] = k.recent.PushFront(d)
	if k.recent.Len() > k.size {
		k.evictDecision(k.recent.Back())
	}
}

func (k *decisionCache) evictDecision(element *list.Element) {
	d, _ := k.recent.Remove(element).(*accessDecision)
	delete(k.decisions, d.question)
}

// forgetNamespace drops the decisions about a namespace, and all if it is empty: what
// has no namespace can be about any.
func (k *decisionCache) forgetNamespace(namespace string) {
	k.mu.Lock()
	k.change++
	k.markSettling(namespace)
	for element := k.recent.Front(); element != nil; {
		next := element.Next()
		if d, _ := element.Value.(*accessDecision); namespace == "" || d.question.access.Namespace == namespace {
			k.evictDecision(element)
		}
		element = next
	}
	k.mu.Unlock()
	k.changed()
}

// markSettling notes a change in a namespace, or in all.
func (k *decisionCache) markSettling(namespace string) {
	now := k.clock.Now()
	if len(k.settling) >= settlingMax {
		maps.DeleteFunc(k.settling, func(_ string, by time.Time) bool { return !now.Before(by) })
	}
	k.settling[namespace] = now.Add(settleTime)
}

// markWatched notes whether the changes of a resource are heard of.
func (k *decisionCache) markWatched(resource string, heard bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if heard {
		if _, was := k.blind[resource]; was {
			delete(k.blind, resource)
			k.markSettling("") // what was missed is on its way
		}
		return
	}
	k.blind[resource] = struct{}{}
	k.decisions = map[accessQuestion]*list.Element{}
	k.recent.Init()
}
