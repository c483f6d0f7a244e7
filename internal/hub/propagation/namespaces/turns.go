// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// leaveAfter is for how long nothing may need a namespace in a cluster before its work goes. Bindings come and go as
// their users like, and each time etcd stores a work for each cluster.
const leaveAfter = 10 * time.Minute

// admitChanges returns which works of a namespace are written and deleted now, and how soon to look again for others, 0 if
// there is no need. What users of the namespace have it need waits for what else is written for them, and takes no
// room of theirs.
func (c *NamespaceController) admitChanges(ctx context.Context, targets namespaceTargets, changes deliver.WorkChanges) (admitted deliver.WorkChanges, again time.Duration, err error) {
	changes.Gone, again, err = c.admitDeletions(ctx, targets, changes.Gone)
	if err != nil {
		return changes, 0, err
	}
	writes := map[allowance.WorkOwner][]allowance.WorkWrite{}
	for _, write := range changes.AllowanceWrites(c.Writer.Restless.IsMadeAgain) {
		owner := targets.owners[write.Work.Namespace]
		write.Has = write.Bytes // it needs no room
		writes[owner] = append(writes[owner], write)
	}
	for owner, of := range writes {
		held := c.Allowance.AdmitWrites(owner, of)
		changes = changes.WithoutHeld(held)
		again = shorterWait(again, held.Again)
	}
	return changes, again, nil
}

// admitDeletions returns which works are deleted now, of those that are not wanted. What no binding needs any more takes its
// turn; what an administrator has decided about does not, nor what is in the way of a cluster that goes.
func (c *NamespaceController) admitDeletions(ctx context.Context, targets namespaceTargets, gone []workv1.ManifestWork) (now []workv1.ManifestWork, again time.Duration, err error) {
	var unneeded []workv1.ManifestWork
	for i := range gone {
		decided, err := c.isDecidedByAdministrators(ctx, targets, gone[i].Namespace)
		switch {
		case err != nil:
			return nil, 0, err
		case decided:
			now = append(now, gone[i])
		default:
			unneeded = append(unneeded, gone[i])
		}
	}
	due, again := c.unneeded.takeDueWorks(targets.namespace, unneeded, c.Clock.Now())
	if len(due) == 0 {
		return now, again, nil
	}
	deletions := make([]allowance.WorkDeletion, len(due))
	for i := range due {
		deletions[i] = allowance.WorkDeletion{Work: &due[i], Writes: send.WritesToRemove(&due[i], false)}
	}
	admitted, held := c.Allowance.AdmitDeletions(usersOf(targets.namespace), deletions)
	for _, work := range admitted {
		now = append(now, *work)
	}
	return now, shorterWait(again, held.Again), nil
}

// isDecidedByAdministrators reports whether a cluster is to lose a namespace for another reason than that no binding needs it.
func (c *NamespaceController) isDecidedByAdministrators(ctx context.Context, targets namespaceTargets, cluster string) (bool, error) {
	if _, needed := targets.owners[cluster]; needed || targets.never || targets.sent[cluster] {
		return true, nil
	}
	named, err := c.fleetOfCluster(ctx, cluster, view.IdentityFromCluster)
	return deliver.CheckWorkNamespace(named, cluster) != nil, err
}

// reportFailedWrites says which works could not be written or deleted, by cluster.
func (c *NamespaceController) reportFailedWrites(targets namespaceTargets, failed map[string]error) {
	for cluster, err := range failed {
		owner, needed := targets.owners[cluster]
		if !needed {
			owner = usersOf(targets.namespace)
		}
		c.Allowance.ReportFailedWrites(owner, deliver.NamespaceWorkName(targets.namespace), map[string]error{cluster: err})
	}
}

// shorterWait returns the shorter of two times to wait, of which 0 is none.
func shorterWait(a, b time.Duration) time.Duration { return min(cmp.Or(a, b), cmp.Or(b, a)) }

// unneededNamespaces remembers since when nothing needs namespaces in clusters that have them. It is safe for concurrent use.
type unneededNamespaces struct {
	mu    sync.Mutex
	since map[string]map[string]time.Time // by namespace and cluster
}

func newUnneededNamespaces() *unneededNamespaces {
	return &unneededNamespaces{since: map[string]map[string]time.Time{}}
}

// takeDueWorks takes in which works of a namespace are not needed, and returns those that are not for leaveAfter, and when the next
// one is due, 0 if there is none.
func (u *unneededNamespaces) takeDueWorks(namespace string, unneeded []workv1.ManifestWork, now time.Time) (due []workv1.ManifestWork, next time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.since[namespace]
	since := map[string]time.Time{}
	due = slices.DeleteFunc(unneeded, func(work workv1.ManifestWork) bool {
		from, known := before[work.Namespace]
		if !known {
			from = now
		}
		since[work.Namespace] = from
		wait := leaveAfter - now.Sub(from)
		next = shorterWait(next, max(0, wait))
		return wait > 0
	})
	if u.since[namespace] = since; len(since) == 0 {
		delete(u.since, namespace)
	}
	return due, next
}

// forgetNamespace forgets a namespace that is gone.
func (u *unneededNamespaces) forgetNamespace(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, namespace)
}
