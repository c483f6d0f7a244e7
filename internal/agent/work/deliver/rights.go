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

// executorRights are what the executor of a work may do to an object. A work without an executor has the
// rights of the agent.
type executorRights struct{ of *object }

// isPermitted reports whether the executor may do to the object what its strategy
// may need. If not, the outcome says so.
func (r executorRights) isPermitted(ctx context.Context, needs []string) bool {
	o := r.of
	if o.Session == nil {
		return true
	}
	err := o.Session.CheckVerbs(ctx, o.want.Object, needs)
	if err == nil {
		return true
	}
	if !r.reportDenial(ctx, err) {
		o.outcome.Problem = apply.ExplainError(err, "create", executor.ReviewObject())
		if known, _ := o.Inventory.Get(o.want.Object); known != nil {
			o.outcome.Presence = plan.PresenceYes
		}
	}
	return false
}

// rehearseWrite returns an error if the executor may not write the body, for
// reasons that only the API server knows.
func (r executorRights) rehearseWrite(ctx context.Context, body []byte, as apply.FieldWriter) error {
	o := r.of
	if o.Session == nil {
		return nil
	}
	o.Manifests.EndReservation(ctx) // as each request to the member does
	return o.Session.RehearseApply(ctx, o.want.Resource.Version, o.want.Object, body, as)
}

// reportDenial reports whether an error is about the rights of the executor, and puts
// it into the outcome then. What is not known to the executor is not told to
// the work: whether the object exists is told only if the executor may get it.
func (r executorRights) reportDenial(ctx context.Context, err error) bool {
	var (
		lacking   *executor.DeniedError
		refused   *executor.RefusedError
		powerless *executor.PowerlessError
	)
	outcome := r.of.outcome
	switch {
	case errors.As(err, &lacking):
		outcome.Problem = apply.ObjectProblem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
		if lacking.LacksVerb("get") {
			outcome.Denied = true
			return true
		}
	case errors.As(err, &refused):
		outcome.Problem = apply.ObjectProblem{Trouble: apply.TroubleForbidden, Message: refused.Error()}
	case errors.As(err, &powerless):
		outcome.Problem = apply.ObjectProblem{Trouble: apply.TroubleForbidden, Message: powerless.Error()}
	default:
		return false
	}
	outcome.Denied = true
	r.of.probeExistence(ctx)
	return true
}
