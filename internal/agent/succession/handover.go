// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package succession

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/registration/handover"
)

// memberPatience is how long the member may take to have the mark read and written.
const memberPatience = 10 * time.Second

// unmarkMin and unmarkMax bound the time between attempts to remove the mark.
const (
	unmarkMin = time.Second
	unmarkMax = time.Minute
)

// markMember says on the member whose place the agent takes, before it takes over
// the first record. An agent that was stopped before it had all of them finds
// there whose they are. Agents that may not read records take none. If the hub
// names nobody who was before, a member that does not answer keeps nobody from the
// hub: should records be another agent's after all, they are claimed.
func markMember(ctx context.Context, c *fleet.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	mark, err := readMark(ctx, c)
	switch {
	case apierrors.IsForbidden(err), err != nil && c.Predecessor == "":
		return nil
	case err != nil:
		return err
	}
	if c.Predecessor == "" {
		c.Predecessor = formerAgent(mark, c.AgentID)
	}
	if c.Predecessor == "" || !handover.RecordTakeover(mark, c.AgentID, c.Predecessor) {
		return nil
	}
	if mark.ResourceVersion == "" {
		err = c.Spoke.GetClient().Create(ctx, mark)
	} else {
		err = c.Spoke.GetClient().Update(ctx, mark)
	}
	switch {
	case apierrors.IsNotFound(err) && mark.ResourceVersion == "":
		return nil // a member that does not know the kind has no records
	case err != nil:
		return fmt.Errorf("marking on the member that another agent takes over the AppliedManifestWorks of %q: %w", c.Name, err)
	}
	return nil
}

// formerAgent returns who worked for a cluster before the agent, by its mark.
func formerAgent(mark *workv1.AppliedManifestWork, agent string) string {
	if now := handover.CurrentAgent(mark); now != agent {
		return now
	}
	if former := handover.FormerAgents(mark); len(former) > 0 {
		return former[len(former)-1]
	}
	return ""
}

// readMark returns the mark of the cluster, a new one if the member has none.
func readMark(ctx context.Context, c *fleet.Connection) (*workv1.AppliedManifestWork, error) {
	mark := handover.NewMark(workv1.HubHash(c.HubHost), string(c.Name))
	err := c.Spoke.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(mark), mark)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading on the member whether another agent has taken over %q: %w", c.Name, err)
	}
	return mark, nil
}

// HandoverFollower follows how the records of the agent before are taken over, and removes
// the mark on the member when that is done. It is safe for concurrent use.
type HandoverFollower struct {
	connection *fleet.Connection
	hubHash    string

	mu     sync.Mutex
	left   sets.Set[string]
	listed bool
	over   chan struct{} // is closed when nothing is left
	ended  bool
}

// NewHandoverFollower returns that of a connection.
func NewHandoverFollower(c *fleet.Connection) *HandoverFollower {
	return &HandoverFollower{connection: c, hubHash: workv1.HubHash(c.HubHost), left: sets.New[string](), over: make(chan struct{})}
}

// ObserveRecord is told of each change of a record.
func (h *HandoverFollower) ObserveRecord(record *workv1.AppliedManifestWork) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := record.Spec.HubHash == h.hubHash && record.Spec.AgentID == h.connection.Predecessor && record.DeletionTimestamp == nil
	if left && h.connection.Predecessor != "" {
		h.left.Insert(record.Name)
	} else {
		h.left.Delete(record.Name)
	}
	h.concludeIfEmpty()
}

// MarkListed is told that ObserveRecord was told of all records that there are.
func (h *HandoverFollower) MarkListed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed = true
	h.concludeIfEmpty()
}

// concludeIfEmpty sees whether nothing is left. Call it with the lock held.
func (h *HandoverFollower) concludeIfEmpty() {
	if h.listed && !h.ended && h.left.Len() == 0 {
		h.ended = true
		close(h.over)
	}
}

// RunHandover returns when the mark is removed, or ctx ends.
func (h *HandoverFollower) RunHandover(ctx context.Context, logger logr.Logger) {
	if h.connection.Predecessor == "" {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-h.over:
	}
	for wait := backoff.ExponentialBetween(unmarkMin, unmarkMax); ; {
		err := h.removeMark(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.V(1).Info("Trying again to remove the mark of a handover", "cluster", h.connection.Name, "problem", err.Error())
		if !backoff.SleepContext(ctx, clock.RealClock{}, wait.Step()) {
			return
		}
	}
}

// removeMark removes the mark, unless another agent has taken over meanwhile.
func (h *HandoverFollower) removeMark(ctx context.Context) error {
	mark, err := readMark(ctx, h.connection)
	if err != nil || mark.ResourceVersion == "" || handover.CurrentAgent(mark) != h.connection.AgentID {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	}
	err = h.connection.Spoke.GetClient().Delete(ctx, mark, client.Preconditions{UID: &mark.UID, ResourceVersion: &mark.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the mark of a handover: %w", err)
	}
	return nil
}
