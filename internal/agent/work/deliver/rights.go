// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"errors"

	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// rights are what the executor of a work may do to an object. A work without an executor has the
// rights of the agent.
type rights struct{ of *object }

// permitted tells whether the executor may do to the object what its strategy
// may need. If not, the outcome says so.
func (r rights) permitted(ctx context.Context, needs []string) bool {
	o := r.of
	if o.Session == nil {
		return true
	}
	err := o.Session.Check(ctx, o.item.Object, needs)
	if err == nil {
		return true
	}
	if !r.denied(ctx, err) {
		o.item.Outcome.Problem = apply.Explain(err, "create", executor.Reviews())
		if known, _ := o.Inventory.Get(o.item.Object); known != nil {
			o.item.Outcome.Presence = plan.PresenceYes
		}
	}
	return false
}

// rehearse returns an error if the executor may not write the body, for
// reasons that only the API server knows.
func (r rights) rehearse(ctx context.Context, body []byte, as apply.As) error {
	o := r.of
	if o.Session == nil {
		return nil
	}
	return o.Session.Rehearse(ctx, o.item.Resource.Version, o.item.Object, body, as)
}

// denied tells whether an error is about the rights of the executor, and puts
// it into the outcome then. What is not known to the executor is not told to
// the work: whether the object exists is told only if the executor may get it.
func (r rights) denied(ctx context.Context, err error) bool {
	var (
		lacking   *executor.DeniedError
		refused   *executor.RefusedError
		powerless *executor.PowerlessError
	)
	outcome := &r.of.item.Outcome
	switch {
	case errors.As(err, &lacking):
		outcome.Problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
		if lacking.Lacks("get") {
			outcome.Denied = true
			return true
		}
	case errors.As(err, &refused):
		outcome.Problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: refused.Error()}
	case errors.As(err, &powerless):
		outcome.Problem = apply.Problem{Trouble: apply.TroubleForbidden, Message: powerless.Error()}
	default:
		return false
	}
	outcome.Denied = true
	r.of.findOut(ctx)
	return true
}
