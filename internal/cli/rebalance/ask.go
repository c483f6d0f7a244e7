// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

const (
	// keepSeconds is how long the hub keeps a rebalancer that has finished.
	keepSeconds = 3600
	// lookEvery is how often a command that waits looks.
	lookEvery = 500 * time.Millisecond
)

// createRebalancer creates the rebalancer.
func (c *rebalanceCommand) createRebalancer(ctx context.Context, to client.Client, workloads []*boundWorkload) (*appsv1alpha1.WorkloadRebalancer, error) {
	r := &appsv1alpha1.WorkloadRebalancer{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "capstan-"},
		Spec:       appsv1alpha1.WorkloadRebalancerSpec{TTLSecondsAfterFinished: new(int32(keepSeconds))},
	}
	for _, w := range workloads {
		r.Spec.Workloads = append(r.Spec.Workloads, w.objectReference())
	}
	return r, to.Create(ctx, r)
}

// askInTime creates the rebalancer in a second after those in which the clusters
// were chosen last: the hub's times are that exact, and what was chosen in the
// second in which it is asked for counts as done.
func (c *rebalanceCommand) askInTime(ctx, patience context.Context, workloads []*boundWorkload) (*appsv1alpha1.WorkloadRebalancer, error) {
	var last time.Time
	for _, w := range workloads {
		if t := w.binding.BindingStatus().LastScheduledTime; t != nil && t.After(last) {
			last = t.Time
		}
	}
	for {
		r, err := c.createRebalancer(ctx, c.client, workloads)
		if err != nil || r.CreationTimestamp.After(last) {
			return r, err
		}
		if err := c.client.Delete(ctx, r); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		c.steps.ShowWaiting("the clusters have just been chosen")
		if err := pausePoll(ctx, patience); err != nil {
			return nil, timedOut(err, "the hub reports that the clusters were chosen at %s, which is still in the future", last.Format(time.RFC3339))
		}
	}
}

// awaitScheduled waits until the clusters of an object are chosen as they were asked for,
// and returns its binding.
func (c *rebalanceCommand) awaitScheduled(ctx, patience context.Context, w *boundWorkload, since time.Time) (readableBinding, error) {
	for {
		b, err := bindingOf(ctx, c.reader, w)
		if err != nil {
			return nil, err
		}
		if b == nil {
			return nil, fmt.Errorf("%s is not sent to clusters any more", w)
		}
		status := b.BindingStatus()
		if t := status.LastScheduledTime; t != nil && !t.Time.Before(since) {
			return b, nil
		}
		scheduled := meta.FindStatusCondition(status.Conditions, workv1alpha2.BindingConditionScheduled)
		told := b.BindingSpec().RescheduleTriggeredAt != nil && !b.BindingSpec().RescheduleTriggeredAt.Time.Before(since)
		if told && scheduled != nil && scheduled.Status == metav1.ConditionFalse && status.SchedulerObservedGeneration == b.GetGeneration() {
			return nil, exit.Next(fmt.Errorf("%s stays where it is: %s (%s)", w, scheduled.Message, scheduled.Reason),
				"The hub retries automatically when clusters change.")
		}
		c.steps.ShowWaiting("%s: the hub has not chosen yet", w)
		if err := pausePoll(ctx, patience); err != nil {
			return nil, timedOut(err, "the clusters of %s are not chosen yet", w)
		}
	}
}

// pausePoll waits for a moment, unless the time is over.
func pausePoll(ctx, patience context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.Done():
		return context.Cause(patience)
	case <-time.After(lookEvery):
		return nil
	}
}

// timedOut explains that something did not happen in time.
func timedOut(err error, format string, args ...any) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &exit.Error{
		Err: fmt.Errorf(format, args...), Code: exit.TimedOut,
		Next: "The hub continues in the background; if nothing changes, \"capstan doctor\" shows whether its propagation controller is running.",
	}
}
