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

// suspendWork says that the work waits. What is on the member stays as it is; if the
// work wants that, it is reported all the same what becomes of it.
func (p *workPass) suspendWork(ctx context.Context) error {
	if plan.ReadWorkOptions(p.work, plan.HealthOptions{}).SuspendedReports && p.record.Exists() {
		if err := observeSuspended(ctx, p); err != nil {
			return err
		}
	}
	p.setDispatching(metav1.ConditionFalse, workv1.ManifestWorkReasonSuspendDispatching,
		"Nothing is written to the cluster while annotation "+workv1.AnnotationSuspendDispatching+" is true.")
	return p.writeStatus(ctx)
}

// observeSuspended observes the objects of a work of which nothing is applied.
func observeSuspended(ctx context.Context, p *workPass) error {
	p.record.WatchTypes(ledger.TypesOf(p.record.Object()))
	if err := p.preparePlan(ctx); err != nil {
		return err
	}
	if err := p.observeObjects(ctx); err != nil {
		return err
	}
	p.requeueAfter(report.ComposeSuspended(report.PassOutcomes{Work: p.work, Plan: p.plan, Now: p.cluster.options.Clock.Now()}, &p.status))
	return nil
}

// resumeDispatching says that a work goes on that was suspended.
func (p *workPass) resumeDispatching() {
	if meta.FindStatusCondition(p.status.Conditions, workv1.ManifestWorkConditionDispatching) != nil {
		p.setDispatching(metav1.ConditionTrue, workv1.ManifestWorkReasonDispatching, "The work is being dispatched.")
	}
}

func (p *workPass) setDispatching(status metav1.ConditionStatus, reason, message string) {
	conditions.SetCondition(&p.status.Conditions, p.work.Generation, metav1.Condition{
		Type: workv1.ManifestWorkConditionDispatching, Status: status, Reason: reason, Message: message,
	})
}
