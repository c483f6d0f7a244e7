// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// confirmEvery is how often the decision for a binding is confirmed at most. In a
// fleet where labels change all the time each of them would be a write for each
// binding.
const confirmEvery = 30 * time.Second

// confirmations are the bindings whose decision is to be confirmed, and since when.
// They are safe for concurrent use.
type confirmations struct {
	mu    sync.Mutex
	asked map[types.NamespacedName]time.Time
}

func (c *confirmations) requestConfirmation(now time.Time, names []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[types.NamespacedName]time.Time{}
	}
	for _, name := range names {
		c.asked[name] = now
	}
}

func (c *confirmations) forgetBinding(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, name)
}

// dueIn returns in how long the decision for a binding is to be confirmed, and false
// if nobody has asked since it was made.
func (c *confirmations) dueIn(name types.NamespacedName, status *workv1alpha2.ResourceBindingStatus, now time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, is := c.asked[name]
	if !is || status.LastScheduledTime == nil {
		return 0, false
	}
	if !asked.After(status.LastScheduledTime.Time) {
		delete(c.asked, name)
		return 0, false
	}
	return max(0, status.LastScheduledTime.Add(confirmEvery).Sub(now)), true
}

// RequestConfirmation has the decisions for bindings confirmed the next time they are looked
// at: status.lastScheduledTime says so, for which clients wait.
func (d *Decider) RequestConfirmation(names ...types.NamespacedName) {
	d.confirmations.requestConfirmation(d.clock.Now(), names)
}

// ConfirmIn returns in how long to look at a binding again to confirm its decision,
// 0 if there is no need.
func (d *Decider) ConfirmIn(b client.Object, status *workv1alpha2.ResourceBindingStatus) time.Duration {
	in, _ := d.confirmations.dueIn(client.ObjectKeyFromObject(b), status, d.clock.Now())
	return in
}

// ForgetBinding forgets a binding that is gone.
func (d *Decider) ForgetBinding(name types.NamespacedName) {
	d.confirmations.forgetBinding(name)
	d.refusals.forgetRefusal(name)
}

// isConfirmationDue reports whether the decision for a binding is to be confirmed now.
func (d *Decider) isConfirmationDue(b workv1alpha2.Binding) bool {
	in, asked := d.confirmations.dueIn(types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()}, b.BindingStatus(), d.clock.Now())
	return asked && in == 0
}
