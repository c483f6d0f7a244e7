// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// Announcement is what the agent says of its cluster when it creates the
// ManagedCluster.
type Announcement struct {
	Labels        map[string]string
	Annotations   map[string]string
	ClientConfigs []clusterv1.ClientConfig
	// UID of the namespace kube-system. Empty if it is not known; then a name
	// that another cluster joined under is found taken only while that is heard of.
	UID string
}

// managedCluster returns the object to create. That the agent knows the hub by
// the URL is said right away, as it would have to be written later.
func (a Announcement) managedCluster(name, hubURL string) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: a.Labels, Annotations: map[string]string{fleetv1alpha1.AnnotationHubURL: hubURL},
		},
		Spec: clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: a.ClientConfigs},
	}
	for key, value := range a.Annotations {
		mc.Annotations[key] = value
	}
	if a.UID != "" {
		mc.Annotations[clusterv1.AnnotationClusterUID] = a.UID
	}
	return mc
}

// nameTakenBy tells who else has the name, or nothing if it is ours or free.
func (a Announcement) nameTakenBy(mc *clusterv1.ManagedCluster) string {
	switch theirs := mc.Annotations[clusterv1.AnnotationClusterUID]; {
	case theirs != "" && a.UID != "" && theirs != a.UID:
		return fmt.Sprintf("another cluster (UID of its kube-system namespace: %s) has registered as ManagedCluster %s", theirs, mc.Name)
	case theirs != "" && theirs == a.UID:
		return ""
	case meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) &&
		isHeardOf(mc):
		return fmt.Sprintf("a live agent has joined as ManagedCluster %s, with a credential that this agent does not have", mc.Name)
	}
	return ""
}

// isHeardOf reports whether the hub hears of the cluster's agent.
func isHeardOf(mc *clusterv1.ManagedCluster) bool {
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	return available != nil && available.Status != metav1.ConditionUnknown
}

// ensureManagedCluster makes sure that the ManagedCluster is there and is ours. It only
// reads the facts.
func (m *HandshakeMachine) ensureManagedCluster(ctx context.Context, hub client.Client, name string) (*clusterv1.ManagedCluster, error) {
	mayCreate := m.state.facts.mayCreateCluster(name)
	server := m.state.facts.Bootstrap.Endpoint.Server
	what := fmt.Sprintf("creating ManagedCluster %q", name)
	announcement, err := m.loadAnnouncement(ctx)
	if err != nil {
		return nil, err
	}
	mc := announcement.managedCluster(name, server)
	if mayCreate {
		err = hub.Create(ctx, mc)
		if err == nil {
			return mc, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, explainBootstrapError(what, server, err)
		}
	}
	live := &clusterv1.ManagedCluster{}
	err = hub.Get(ctx, client.ObjectKey{Name: name}, live)
	switch {
	case apierrors.IsNotFound(err) && !mayCreate:
		return nil, &stepError{reason: operatorv1.JoinReasonClusterDeleted, message: deletedMessage(name)}
	case err != nil:
		return nil, explainBootstrapError(fmt.Sprintf("reading ManagedCluster %q", name), server, err)
	}
	if who := announcement.nameTakenBy(live); who != "" && !m.state.wasOurs(name) {
		return nil, &stepError{
			reason: operatorv1.JoinReasonClusterNameTaken,
			message: toSentence(who) + " Give this cluster another name (spec.clusterName of the Klusterlet), or delete that ManagedCluster on the hub " +
				"if its cluster is gone.",
		}
	}
	return live, nil
}

// loadAnnouncement returns what to announce, once it could be found out.
func (m *HandshakeMachine) loadAnnouncement(ctx context.Context) (Announcement, error) {
	if m.announced != nil {
		return *m.announced, nil
	}
	a, err := m.options.Announce(ctx)
	if err != nil {
		return Announcement{}, fmt.Errorf("reading the identity of this cluster: %w", err)
	}
	m.announced = &a
	return a, nil
}

// clusterFactOf reads the fact from the object; nil is for one that is absent.
// engaged is whether the parts are at work for it.
func clusterFactOf(mc *clusterv1.ManagedCluster, engaged bool) clusterFact {
	if mc == nil {
		return clusterFact{State: clusterAbsent}
	}
	fact := clusterFact{State: clusterPreparing, UID: mc.UID, Agents: policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents])}
	accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	switch {
	case !mc.Spec.HubAcceptsClient:
		fact.State = clusterWaiting
		if engaged || accepted != nil { // the hub says nothing of a cluster that was never accepted
			fact.State = clusterDenied
		}
	case accepted == nil:
	case accepted.Status == metav1.ConditionTrue:
		fact.State = clusterAccepted
	case accepted.Reason == clusterv1.ManagedClusterReasonAlreadyJoined:
		fact.State = clusterTwin
		fact.Detail = accepted.Message
	default:
		fact.Detail = accepted.Message
	}
	return fact
}

// givenAnotherBootstrap reports whether the user changed the bootstrap
// kubeconfig after the hub credential was got.
func (f joinFacts) givenAnotherBootstrap() bool {
	return f.Bootstrap.State == bootstrapPresent && f.Hub.Bootstrap != "" && f.Hub.Bootstrap != f.Bootstrap.Hash
}

// outlivedCluster reports whether the agent shall join again, as the hub credential is for
// a ManagedCluster that was deleted: somebody gave the agent another bootstrap
// kubeconfig since, or created another ManagedCluster, which does not count this
// agent among its own. For which one a credential of an earlier release was issued
// is not known: then it takes an accepted cluster and another bootstrap kubeconfig.
func (f joinFacts) outlivedCluster() bool {
	switch {
	case f.Cluster.State == clusterAbsent:
		return f.givenAnotherBootstrap()
	case f.Auth != authForbidden, f.Cluster.UID == "", f.Cluster.hasAgent(f.Hub.Agent):
		return false
	case f.Hub.ClusterUID == "":
		return f.Cluster.State == clusterAccepted && f.givenAnotherBootstrap()
	}
	return f.Hub.ClusterUID != f.Cluster.UID
}

// lacksMembership reports whether the hub credential lacks what outlivedCluster asks for: while it
// works, it is known for which ManagedCluster that is, and beside which bootstrap
// kubeconfig.
func (f joinFacts) lacksMembership() bool {
	return f.Hub.ClusterUID == "" && f.Cluster.UID != "" || f.givenAnotherBootstrap()
}

// hasAgent reports whether the hub counts an agent among those of the ManagedCluster.
func (c clusterFact) hasAgent(agent string) bool {
	return c.Agents.HasAnyAgent() || c.Agents.HasAgent(agent)
}

// mayCreateCluster is false if the ManagedCluster of the name on this hub was
// ours before: if it is gone, then because somebody deleted it.
func (f joinFacts) mayCreateCluster(name string) bool {
	return f.Hub == nil || f.Hub.Cluster != name ||
		!f.Hub.leadsTo(f.Bootstrap.Endpoint) || f.givenAnotherBootstrap()
}

// engagedOtherwise reports whether the parts are at work as another agent, or for
// another hub, than the hub credential is for. Another CA is taken over in place.
func (f joinFacts) engagedOtherwise() bool {
	return f.Engaged != nil && (f.Engaged.identity != f.Hub.identity || !f.Engaged.Endpoint.SameConnection(f.Hub.Endpoint))
}
