// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// phase is a part of a pass. It changes the ClusterManager in memory only.
type phase struct {
	name string
	// failed is the reason of the condition Applied if the phase fails.
	failed string
	run    func(context.Context, *pass) error
}

// pass is one walk through the phases and what they leave for each other.
type pass struct {
	// before is the ClusterManager as the API server has it, cm as it is to be.
	before, cm *operatorv1.ClusterManager
	hub        manifests.Hub
	// site is the hub, once it was found. In a removal it is nil if there is nothing
	// to be removed from it.
	site *site
	// credential leads to the hub in mode Hosted.
	credential probe.Credential
	// records of everything that is installed.
	records []render.Record
	// rollouts of the components; nil until they were applied.
	rollouts []rollout
	// start is when the pass began, due when the next pass has to be at the latest.
	start, due time.Time
}

// outcome is how a pass ended: all done, waiting for something, or failed. After
// some failures it is known when to try again.
type outcome struct {
	waiting  string
	reason   string
	err      error
	terminal bool
	retried  bool
}

// waitError says that a pass cannot go on yet, which is not a failure. The
// reason is that of the condition Applied, as long as nothing is installed.
type waitError struct{ reason, what string }

func (e waitError) Error() string { return e.what }

// mistakeError says that the user has to change something; trying again is of
// no use.
type mistakeError struct{ reason, what string }

func (e mistakeError) Error() string { return e.what }

// unreachedError says that the hub cannot be worked on from here. It is tried
// again at intervals, not more and more seldom.
type unreachedError struct{ reason, what string }

func (e unreachedError) Error() string { return e.what }

// run goes through the phases until one fails or has to wait.
func (p *pass) run(ctx context.Context, phases []phase) outcome {
	for _, phase := range phases {
		err := phase.run(ctx, p)
		var wait waitError
		var mistake mistakeError
		var unreached unreachedError
		switch {
		case err == nil:
		case errors.As(err, &wait):
			p.dueIn(waitRetry)
			return outcome{reason: wait.reason, waiting: wait.what}
		case errors.As(err, &mistake):
			return outcome{reason: mistake.reason, err: err, terminal: true}
		case errors.As(err, &unreached):
			p.dueIn(hubRetry)
			return outcome{reason: unreached.reason, err: err, retried: true}
		default:
			return outcome{reason: phase.failed, err: fmt.Errorf("%s of ClusterManager %q: %w", phase.name, p.cm.Name, err)}
		}
	}
	return outcome{}
}

// install applies objects and remembers them, also those before a failure.
func (p *pass) install(ctx context.Context, applier *render.Applier, objects []render.Object) error {
	records, err := applier.Apply(ctx, objects...)
	p.records = append(p.records, records...)
	return err
}

func (p *pass) dueBy(t time.Time) {
	if t.Before(p.due) {
		p.due = t
	}
}

// dueIn asks for the next pass after d, counted from the start of this one.
func (p *pass) dueIn(d time.Duration) { p.dueBy(p.start.Add(d)) }
