// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"
	"sync"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// schedulePriority returns the value of the PriorityClass that the policy names, nil if
// it names none or that does not matter. found is false if there is no such class.
func (d DetectionDeps) schedulePriority(ctx context.Context, policy policyv1alpha1.Policy) (value *int32, found bool, err error) {
	asked := policy.PropagationSpec().SchedulePriority
	if asked == nil || !d.Prioritizes {
		return nil, true, nil
	}
	class := &schedulingv1.PriorityClass{}
	err = d.Client.Get(ctx, types.NamespacedName{Name: asked.PriorityClassName}, class)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading PriorityClass %q: %w", asked.PriorityClassName, err)
	}
	return &class.Value, true, nil
}

// priorityPolicies remembers which policies name a PriorityClass. As long as none does, the
// objects need no rank.
type priorityPolicies struct {
	mu       sync.RWMutex
	policies map[string]bool
}

// setPriority notes whether a policy names a PriorityClass.
func (a *priorityPolicies) setPriority(policy string, asks bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !asks {
		delete(a.policies, policy)
		return
	}
	if a.policies == nil {
		a.policies = map[string]bool{}
	}
	a.policies[policy] = true
}

func (a *priorityPolicies) anyPriority() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.policies) > 0
}

// objectPriority returns how important an object is, by what is known. It is asked whenever a watch
// tells of an object, and has what is not known found out aside: an author of policies can
// have that take long.
func (c *DetectionController) objectPriority(key templates.Key) int32 {
	if !c.asking.anyPriority() {
		c.ranks.SetRank(key, 0)
		return 0
	}
	c.ranking.NoteKey(key)
	return c.ranks.RankOf(key)
}

// raiseRank finds out how important an object is, and has it come sooner if it is more important
// than was known.
func (c *DetectionController) raiseRank(q templateQueue, key templates.Key) {
	before := c.ranks.RankOf(key)
	is := c.objectImportance(key)
	c.ranks.SetRank(key, is)
	if is > before {
		q.Add(key)
	}
}

// objectImportance returns how important an object is: as its policy says, or the one that is
// about to claim it.
func (c *DetectionController) objectImportance(key templates.Key) int32 {
	template, _ := c.Templates.Get(key)
	if template == nil {
		return 0
	}
	ctx := context.Background() // nothing but the cache is asked
	policies, err := c.chooser.candidatePolicies(ctx, key)
	if err != nil {
		return 0 // only a missing cache gives an error
	}
	policy := claimingPolicy(template, policies)
	if policy == nil {
		policy = c.chooser.selections.ChoosePolicy(template, template, policies, c.Preempts)
	}
	if policy == nil {
		return 0
	}
	value, _, err := c.schedulePriority(ctx, policy)
	if value == nil || err != nil {
		return 0
	}
	return *value
}

// claimingPolicy returns the policy that has claimed an object, nil if none has.
func claimingPolicy(template *metav1.PartialObjectMetadata, policies []policyv1alpha1.Policy) policyv1alpha1.Policy {
	if !claims.HasClaimMarks(template) {
		return nil
	}
	for _, policy := range policies {
		if claims.PolicyClaimsObject(policy, template) {
			return policy
		}
	}
	return nil
}
