// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/apply"
)

// deniedRetryMin and deniedRetryMax bound the time after which an object is
// tried again that the executor may not write; it doubles. A role that was
// given a moment ago is known at once, and one that was not costs little.
const (
	deniedRetryMin = time.Second
	deniedRetryMax = time.Minute
)

// permitted tells whether the executor may do to the item's object what its
// strategy may need. If not, the outcome says so. A work without an executor
// has the rights of the agent.
func (p *pass) permitted(ctx context.Context, it *item) bool {
	if p.session == nil {
		return true
	}
	err := p.session.Check(ctx, it.object, executor.Needs(it.strategy))
	if err == nil {
		return true
	}
	if !p.denied(ctx, it, err) {
		it.outcome.problem = apply.Explain(err, "create", reviews())
		if record, _ := p.inventory.Get(it.object); record != nil {
			it.outcome.presence = presenceYes
		}
	}
	return false
}

// rehearse returns an error if the executor may not write the body, for
// reasons that only the API server knows.
func (p *pass) rehearse(ctx context.Context, it *item, body []byte, as apply.As) error {
	if p.session == nil {
		return nil
	}
	return p.session.Rehearse(ctx, it.resource.Version, it.object, body, as)
}

// denied tells whether an error is about the rights of the executor, and puts
// it into the outcome then. What is not known to the executor is not told to
// the work: whether the object exists is told only if the executor may get it.
func (p *pass) denied(ctx context.Context, it *item, err error) bool {
	var (
		lacking   *executor.DeniedError
		refused   *executor.RefusedError
		powerless *executor.PowerlessError
	)
	switch {
	case errors.As(err, &lacking):
		it.outcome.problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
		if lacking.Lacks("get") {
			it.outcome.denied = true
			return true
		}
	case errors.As(err, &refused):
		it.outcome.problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: refused.Error()}
	case errors.As(err, &powerless):
		it.outcome.problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: powerless.Error()}
	default:
		return false
	}
	it.outcome.denied = true
	p.findOut(ctx, it)
	return true
}

// reviews is what the agent creates to know what an executor may do.
func reviews() apply.Object {
	return apply.Object{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
}

// retryDenied makes the pass come again if the executor lacked a permission.
func (p *pass) retryDenied() {
	denied := false
	for _, it := range p.plan.items {
		denied = denied || it.refused == nil && it.outcome.denied
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !denied {
		delete(p.denials, p.name)
		return
	}
	p.comeBack(min(deniedRetryMin<<min(p.denials[p.name], 16), deniedRetryMax))
	p.denials[p.name]++
}

// undeny forgets how often the executor of a work lacked a permission: the
// work changed, and is tried at once.
func (s *site) undeny(work string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.denials, work)
}

// permissionsChanged makes the works come again soon whose executor lacked a
// permission: someone may have given it. Many changes at once are one.
func (s *site) permissionsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for work := range s.denials {
		s.denials[work] = 0
		s.queue.AddAfter(Request{Cluster: s.connection.Name, Work: work}, deniedRetryMin)
	}
}
