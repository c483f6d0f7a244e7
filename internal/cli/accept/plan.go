// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/requests"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// errNoRequest is that there is nothing to approve yet; waiting may help.
var errNoRequest = errors.New("its agent has not requested a certificate yet")

// acceptanceFacts is what the acceptance of a cluster depends on.
type acceptanceFacts struct {
	cluster    *clusterv1.ManagedCluster
	connection *fleetv1alpha1.ClusterConnection
	requests   requests.SortedRequests
	// chosen is the name of the request that the user wants to be approved, or
	// nothing if there should be no choice.
	chosen string
	now    time.Time
}

// acceptancePlan is what accepting a cluster takes.
type acceptancePlan struct {
	cluster *clusterv1.ManagedCluster
	// approve are the requests to approve, all of the same key.
	approve []requests.ReadyRequest
	// refused are requests that must not be approved.
	refused []requests.RefusedRequest
	// accept says whether the cluster is to be accepted, too.
	accept bool
	// pull is what the hub calls the cluster by, if that is to call the hub from now on.
	pull *fleetv1alpha1.ClusterConnection
	// doubts are sentences about what the user has to look at before anything is done.
	doubts []string
}

// decideAcceptance returns what is to be done to accept a cluster, or why it should not
// be. It depends on nothing but the facts.
func decideAcceptance(f acceptanceFacts) (acceptancePlan, error) {
	name := f.cluster.Name
	p := acceptancePlan{cluster: f.cluster, accept: !f.cluster.Spec.HubAcceptsClient}
	if !f.cluster.DeletionTimestamp.IsZero() {
		return acceptancePlan{}, exit.Next(fmt.Errorf("cluster %q is being deleted", name), "Wait until it is gone; \"capstan describe cluster %s\" shows what it is waiting for.", name)
	}
	if f.chosen != "" {
		return f.withChosen(p)
	}
	if len(f.requests.Ready) == 0 {
		return p, f.withoutRequest()
	}
	if agents := f.distinctAgents(); len(agents) > 1 {
		return acceptancePlan{}, exit.Next(fmt.Errorf("%d different agents ask to be cluster %q:\n%s", len(agents), name, f.formatRequests()),
			"Only one can be right: the one with the key that \"kubectl describe klusterlet\" shows on the cluster. Approve it with \"capstan accept %s --request NAME\", and deny the others with \"kubectl certificate deny\".", name)
	}
	if f.usesPushMode() {
		return acceptancePlan{}, exit.Next(fmt.Errorf("cluster %q is a Push cluster, and an agent asks to join under its name:\n%s", name, f.formatRequests()),
			"To make it a Pull cluster, run \"capstan accept %s --request NAME\": what was delivered to it stays. If not, deny the request with \"kubectl certificate deny NAME\".", name)
	}
	if f.isAgentAlive() {
		return acceptancePlan{}, exit.Next(fmt.Errorf("cluster %q has a working agent, and another one asks to join under its name:\n%s", name, f.formatRequests()),
			"If that is right, approve it with \"capstan accept %s --request NAME\"; if not, deny it with \"kubectl certificate deny NAME\".", name)
	}
	p.approve = f.requests.Ready
	if f.hasJoined() {
		p.doubts = p.doubtsOfUnknown(f.now)
	}
	return p, nil
}

// withChosen is for a user who says which request is the right one.
func (f acceptanceFacts) withChosen(p acceptancePlan) (acceptancePlan, error) {
	for _, ready := range f.requests.Ready {
		if ready.Request.Name == f.chosen {
			p.approve = append(p.approve, ready)
			if f.usesPushMode() {
				p.pull = f.connection
			}
			p.doubts = f.doubtsOf(ready)
			return p, nil
		}
	}
	for _, refused := range f.requests.Refused {
		if refused.Request.Name == f.chosen {
			return acceptancePlan{}, exit.Next(fmt.Errorf("request %q must not be approved: %s", f.chosen, refused.Why), "Deny it with \"kubectl certificate deny %s\".", requests.PrintableName(refused.Request))
		}
	}
	return acceptancePlan{}, exit.Next(fmt.Errorf("cluster %q has no pending request %q", f.cluster.Name, f.chosen),
		"\"capstan describe cluster %s\" lists the pending ones.", f.cluster.Name)
}

// doubtsOf returns what else is to be said of a request that the user has chosen: what
// acceptance without a choice would have stopped at.
func (f acceptanceFacts) doubtsOf(chosen requests.ReadyRequest) []string {
	var doubts []string
	if f.isAgentAlive() && !f.usesPushMode() {
		doubts = append(doubts, fmt.Sprintf("Cluster %q has a working agent, and the request is for another one, which gets the same permissions: %s", f.cluster.Name, whoAsks(chosen, f.now)))
	}
	var others []string
	for _, ready := range f.requests.Ready {
		if ready.Key != chosen.Key {
			others = append(others, "  "+whoAsks(ready, f.now))
		}
	}
	if len(others) > 0 {
		doubts = append(doubts, fmt.Sprintf("Others ask to be cluster %q, too; the right one has the key that \"kubectl describe klusterlet\" shows on the cluster. You have chosen %s\nThe others are:\n%s",
			f.cluster.Name, whoAsks(chosen, f.now), strings.Join(others, "\n")))
	}
	return doubts
}

// doubtsOfUnknown returns what is to be said of requests that came while the command waited
// for one, or for a cluster whose agent is not heard of any more: whoever asks, or asks
// first, is not known to be the right one.
func (p acceptancePlan) doubtsOfUnknown(now time.Time) []string {
	var doubts []string
	for _, ready := range p.approve {
		doubts = append(doubts, fmt.Sprintf("Whoever has a bootstrap token can ask to be cluster %q; the right one has the key that \"kubectl describe klusterlet\" shows on the cluster. This one asks: %s",
			p.cluster.Name, whoAsks(ready, now)))
	}
	return doubts
}

// doubtsOfLabels returns what is to be said of the labels that the cluster has chosen.
func doubtsOfLabels(cluster *clusterv1.ManagedCluster) []string {
	chosen := view.ChosenLabels(cluster)
	if len(chosen) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Cluster %q comes with labels, by which policies, Placements and sets choose what it is sent, Secrets included:\n  %s",
		cluster.Name, strings.Join(chosen, "\n  "))}
}

// withoutRequest returns why the cluster should not be accepted although, or
// because, there is nothing to approve.
func (f acceptanceFacts) withoutRequest() error {
	switch {
	case f.cluster.Spec.HubAcceptsClient,
		f.usesPushMode(), // it needs no certificate
		len(f.requests.Approved) > 0, len(f.requests.Renewals) > 0,
		meta.IsStatusConditionTrue(f.cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined):
		return nil
	case len(f.requests.Refused) > 0:
		var why []string
		for _, refused := range f.requests.Refused {
			why = append(why, columns.OneLine(fmt.Sprintf("%s by %s: %s", requests.PrintableName(refused.Request), refused.Request.Spec.Username, refused.Why)))
		}
		return exit.Next(fmt.Errorf("none of the requests for cluster %q may be approved:\n%s", f.cluster.Name, "  "+strings.Join(why, "\n  ")),
			"Find out who made them. \"capstan deny %s\" denies them.", f.cluster.Name)
	default:
		return exit.Next(fmt.Errorf("cluster %q: %w", f.cluster.Name, errNoRequest),
			"Start its agent; on the cluster, \"kubectl describe klusterlet\" shows what it is waiting for. \"capstan accept %s --wait\" waits for the request.", f.cluster.Name)
	}
}

// usesPushMode reports whether the hub calls the cluster.
func (f acceptanceFacts) usesPushMode() bool {
	return f.connection != nil && f.connection.Spec.SyncMode == fleetv1alpha1.SyncModePush
}

// distinctAgents returns who asks: the names, the keys, and by whom. Names alone do not tell
// agents apart, as whoever may ask can copy those of a request that waits.
func (f acceptanceFacts) distinctAgents() map[string]bool {
	agents := map[string]bool{}
	for _, ready := range f.requests.Ready {
		agents[strings.Join([]string{ready.Agent, ready.Key, ready.Request.Spec.Username}, " ")] = true
	}
	return agents
}

// isAgentAlive reports whether the cluster has an agent that the hub hears of.
func (f acceptanceFacts) isAgentAlive() bool {
	available := meta.FindStatusCondition(f.cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	return f.hasJoined() && available != nil && available.Status != "Unknown"
}

// hasJoined reports whether the cluster is accepted, and an agent has joined as it before.
func (f acceptanceFacts) hasJoined() bool {
	return f.cluster.Spec.HubAcceptsClient && meta.IsStatusConditionTrue(f.cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
}

// formatRequests lists the requests that could be approved.
func (f acceptanceFacts) formatRequests() string {
	var lines []string
	for _, ready := range f.requests.Ready {
		lines = append(lines, "  "+whoAsks(ready, f.now))
	}
	return strings.Join(lines, "\n")
}

// identifyCluster says by what an administrator recognizes a cluster of a name again: whoever may ask to join can
// take a name that was deleted.
func identifyCluster(cluster *clusterv1.ManagedCluster, now time.Time) string {
	return fmt.Sprintf("Cluster %q has the UID %s and asked to join %s ago", cluster.Name, cluster.UID, duration.HumanDuration(now.Sub(cluster.CreationTimestamp.Time)))
}

// whoAsks says all by which an administrator recognizes a request.
func whoAsks(ready requests.ReadyRequest, now time.Time) string {
	return fmt.Sprintf("%s: agent %s with the key %s, requested by %s %s ago", requests.PrintableName(ready.Request), ready.Agent, ready.Key,
		columns.OneLine(ready.Request.Spec.Username), duration.HumanDuration(now.Sub(ready.Request.CreationTimestamp.Time)))
}
