// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/report"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// suspended tells whether somebody wants nothing of the work to be written to the
// member.
func suspended(work *workv1.ManifestWork) bool {
	return work.Annotations[workv1.AnnotationSuspendDispatching] == "true"
}

// suspend says that the work waits. What is on the member stays as it is; of
// what a binding sent, it is reported all the same what becomes of it.
func (p *pass) suspend(ctx context.Context) error {
	if plan.OfBinding(p.work) && p.record.Exists() {
		if err := look(ctx, p); err != nil {
			return err
		}
	}
	p.setDispatching(metav1.ConditionFalse, workv1.ManifestWorkReasonSuspendDispatching,
		"Nothing is written to the cluster while annotation "+workv1.AnnotationSuspendDispatching+" is true.")
	return p.writeStatus(ctx)
}

// look observes the objects of a work of which nothing is applied.
func look(ctx context.Context, p *pass) error {
	p.record.Watch(ledger.TypesOf(p.record.Object()))
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.observe(ctx); err != nil {
		return err
	}
	p.comeBack(report.ComposeSuspended(report.Outcomes{Work: p.work, Plan: p.plan, Now: p.cluster.options.Clock.Now()}, &p.status))
	return nil
}

// resume says that a work goes on that was suspended.
func (p *pass) resume() {
	if meta.FindStatusCondition(p.status.Conditions, workv1.ManifestWorkConditionDispatching) != nil {
		p.setDispatching(metav1.ConditionTrue, workv1.ManifestWorkReasonDispatching, "The work is brought to the cluster.")
	}
}

func (p *pass) setDispatching(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(&p.status.Conditions, p.work.Generation, metav1.Condition{
		Type: workv1.ManifestWorkConditionDispatching, Status: status, Reason: reason, Message: message,
	})
}
