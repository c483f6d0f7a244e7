// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// refusedMin and refusedMax bound how long to wait after admission has refused the
	// clusters of a binding before they are tried again.
	refusedMin = time.Second
	refusedMax = 2 * time.Minute
)

// refusals are the bindings whose clusters admission has refused. It is safe for
// concurrent use.
type refusals struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[types.NamespacedName]bindingRefusal
}

type bindingRefusal struct {
	asked       string // what the clusters were chosen for
	times       int
	last, until time.Time
}

func newRefusals(clk clock.PassiveClock) *refusals {
	return &refusals{clock: clk, of: map[types.NamespacedName]bindingRefusal{}}
}

// addRefusal notes that the clusters of a binding were refused.
func (r *refusals) addRefusal(b workv1alpha2.Binding) {
	asked := requestFingerprint(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[bindingKey(b)]
	now := r.clock.Now()
	if one.asked != asked {
		one = bindingRefusal{asked: asked}
	}
	one.times++
	one.last, one.until = now, now.Add(backoff.DelayAfter(one.times, backoff.ExponentialBetween(refusedMin, refusedMax)))
	r.of[bindingKey(b)] = one
}

// refusalWait is how long to wait before the clusters of a binding are tried again. Those
// of one that asks for something else now are tried at once.
func (r *refusals) refusalWait(b workv1alpha2.Binding) time.Duration {
	r.mu.Lock()
	one, is := r.of[bindingKey(b)]
	r.mu.Unlock()
	if !is || one.asked != requestFingerprint(b) {
		return 0
	}
	return max(0, one.until.Sub(r.clock.Now()))
}

// forgetRefusal notes that the clusters of a binding were not refused, or that it is gone.
func (r *refusals) forgetRefusal(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, key)
}

// freedBindings returns the bindings of a namespace whose clusters were refused, with how
// long to wait before they are tried again now that others take less.
func (r *refusals) freedBindings(namespace string) map[types.NamespacedName]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := map[types.NamespacedName]time.Duration{}
	for key, one := range r.of {
		if key.Namespace != namespace {
			continue
		}
		one.until = one.last.Add(refusedMin)
		r.of[key] = one
		again[key] = max(0, one.until.Sub(r.clock.Now()))
	}
	return again
}

// requestFingerprint is what the clusters of a binding are chosen for.
func requestFingerprint(b workv1alpha2.Binding) string {
	spec := *b.BindingSpec()
	spec.Clusters = nil
	spec.RequiredBy = nil
	spec.Resource.ResourceVersion = ""
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error() // it never fails; if it did, nothing would be tried too early
	}
	return string(text)
}

func bindingKey(b workv1alpha2.Binding) types.NamespacedName {
	return types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()}
}
