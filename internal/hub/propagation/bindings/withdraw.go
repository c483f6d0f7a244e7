// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"maps"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// withdrawResult is what came of deleting works.
type withdrawResult struct {
	// some says that it was the turn of some works, and failed what went wrong with these, by cluster.
	some   bool
	failed map[string]error
	// held is what waits for its turn.
	held allowance.HeldWorks
}

// withdrawBindingWorks deletes works of a binding in a namespace, those whose turn it is: this is the only way in which
// bindings delete works. Bindings without a namespace are an administrator's, and have no limit.
//
// It is the namespace of the binding that pays, whatever its member has written into a work: the work
// says only whether a ClusterPropagationPolicy has sent the object.
func withdrawBindingWorks(ctx context.Context, c BindingControllerDeps, namespace string, works []workv1.ManifestWork, preserve bool) (withdrawResult, error) {
	of := map[allowance.WorkOwner][]allowance.WorkDeletion{}
	for i := range works {
		if work := &works[i]; isAliveWork(*work) {
			owner := allowance.WorkOwner{Namespace: namespace, ClusterWide: allowance.OwnerOf(work).ClusterWide}
			of[owner] = append(of[owner], allowance.WorkDeletion{Work: work, Writes: send.WritesToRemove(work, preserve)})
		}
	}
	result := withdrawResult{failed: map[string]error{}}
	for owner, deletions := range of {
		now, held, err := admitDeletions(ctx, c, owner, deletions)
		if err != nil {
			return result, err
		}
		gone := deliver.WorkChanges{Preserve: preserve}
		for _, work := range now {
			gone.Gone = append(gone.Gone, *work)
		}
		failed := c.workWriter().WriteChanges(ctx, gone)
		for _, work := range now {
			if err := failed[work.Namespace]; err != nil {
				c.Allowance.ReportFailedWrites(owner, work.Name, map[string]error{work.Namespace: err})
			}
		}
		result.some = result.some || len(now) > 0
		result.held = result.held.MergeHeld(held)
		maps.Copy(result.failed, failed)
	}
	return result, nil
}

// admitDeletions returns which works of an owner are deleted now.
func admitDeletions(ctx context.Context, c BindingControllerDeps, owner allowance.WorkOwner, deletions []allowance.WorkDeletion) (now []*workv1.ManifestWork, held allowance.HeldWorks, err error) {
	if owner.Namespace == "" {
		for _, d := range deletions {
			now = append(now, d.Work)
		}
		return now, held, nil
	}
	// Whoever has works to write tells of mistakes.
	if _, err := counting.TakeLimit(ctx, c.Client, c.Allowance, owner); err != nil {
		return nil, held, err //nolint:wrapcheck // it names the namespace
	}
	now, held = c.Allowance.AdmitDeletions(owner, deletions)
	return now, held, nil
}
