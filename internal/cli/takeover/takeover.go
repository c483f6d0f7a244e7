// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/registration/handover"
)

// recordsPerRequest is how many AppliedManifestWorks a request returns: each may
// list a thousand objects.
const recordsPerRequest = 500

// Agent is the new agent of a cluster.
type Agent struct {
	// ID is what it writes into the AppliedManifestWorks that are its own.
	ID string
	// HubURL is how agents of the cluster know the hub: the annotation
	// fleet.capstan.io/hub-url of the ManagedCluster. Without it there was no agent
	// that this one can take over from.
	HubURL string
}

// Count is how far an agent is.
type Count struct {
	// Taken are the AppliedManifestWorks of the agent, and Left those of the same
	// hub that still are another agent's.
	Taken, Left int
	// Foreign are those that the agent does not take over: of another hub, or of an
	// agent that knew the hub by another URL.
	Foreign int
}

// IsDone reports whether nothing is left to take over.
func (c Count) IsDone() bool { return c.Left == 0 }

// String says how far the agent is.
func (c Count) String() string {
	return fmt.Sprintf("%d of %d AppliedManifestWorks are taken over", c.Taken, c.Taken+c.Left)
}

// ListRecordsRight is what a user needs in the member to count.
func ListRecordsRight() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: workv1.GroupName, Resource: "appliedmanifestworks", Verb: "list"}
}

// CountRecords counts the AppliedManifestWorks of the member. A member that does not know
// the kind has none.
func (a Agent) CountRecords(ctx context.Context, member client.Reader) (Count, error) {
	var count Count
	next := ""
	for {
		page := &workv1.AppliedManifestWorkList{}
		err := member.List(ctx, page, client.Limit(recordsPerRequest), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return Count{}, nil
		}
		if err != nil {
			return Count{}, fmt.Errorf("count the AppliedManifestWorks that the new agent has taken over: %w", err)
		}
		for i := range page.Items {
			if record := &page.Items[i]; !handover.IsMark(record) {
				a.countRecord(&count, &record.Spec)
			}
		}
		if next = page.Continue; next == "" {
			return count, nil
		}
	}
}

// countRecord counts one record.
func (a Agent) countRecord(count *Count, record *workv1.AppliedManifestWorkSpec) {
	switch {
	case record.AgentID == a.ID:
		count.Taken++
	case a.HubURL != "" && record.HubHash == workv1.HubHash(a.HubURL):
		count.Left++
	default:
		count.Foreign++
	}
}
