// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
)

// RequestVerdict is what shall happen to a request.
type RequestVerdict string

// The verdicts.
const (
	// Ignore is for requests that are none of our business.
	Ignore RequestVerdict = "Ignore"
	// Wait is for requests that may become right when the cluster changes.
	Wait RequestVerdict = "Wait"
	// Leave is for requests that are in order and that an administrator decides about.
	Leave RequestVerdict = "Leave"
	// Refuse is for requests that must not be approved as they are. They are left
	// pending, for an administrator to look at, and are told about.
	Refuse RequestVerdict = "Refuse"
	// Approve is for requests that may be approved now. A renewal needs the
	// permission to renew besides, see NotAuthorized, and a cluster that is to be
	// accepted a token that has not had too many accepted, see TokenExhausted, a
	// namespace that is nobody else's, see NamespaceTaken, and labels that put it into
	// no set, see InSetByLabels.
	Approve RequestVerdict = "Approve"
)

// AllVerdicts returns all of them.
func AllVerdicts() []RequestVerdict { return []RequestVerdict{Ignore, Wait, Leave, Refuse, Approve} }

// CertificateKind is what a certificate is asked for.
type CertificateKind string

// The kinds.
const (
	// Bootstrap is the first certificate of an agent.
	Bootstrap CertificateKind = "Bootstrap"
	// Renewal is a certificate that an agent asks for with the one it has.
	Renewal CertificateKind = "Renewal"
)

// AllKinds returns all of them.
func AllKinds() []CertificateKind { return []CertificateKind{Bootstrap, Renewal} }

// Reasons of decisions. They are the reasons of the events, too.
const (
	ReasonMalformed      = "CertificateRequestMalformed"
	ReasonClusterDiffers = "CertificateRequestForOtherCluster"
	ReasonIdentity       = "CertificateRequestForOtherIdentity"
	ReasonTokenBound     = "CertificateRequestBeyondToken"
	ReasonClusterDenied  = "CertificateRequestOfDeniedCluster"
	ReasonClusterMissing = "CertificateRequestWithoutCluster"
	ReasonClusterJoined  = "CertificateRequestForJoinedCluster"
	ReasonClusterAlive   = "CertificateRequestForAvailableCluster"
	ReasonNotAuthorized  = "CertificateRenewalNotAuthorized"
	ReasonApproved       = clusterv1.CSRReasonAutoApproved
	ReasonNotAutomatic   = "CertificateRequestNeedsApproval"
)

// SigningRequest is what matters of a CertificateSigningRequest.
type SigningRequest struct {
	// SignerName and Usages are as in the spec.
	SignerName string
	Usages     []certificatesv1.KeyUsage
	// Username and Groups of who made the request, as the API server noted them.
	Username string
	Groups   []string
	// PEM is the request itself.
	PEM []byte
	// ClusterLabel is the value of the label open-cluster-management.io/cluster-name.
	ClusterLabel string
	// AddOnLabel is the value of the label of add-ons, whose requests have
	// rules of their own.
	AddOnLabel string
}

// ClusterFacts is what matters of the ManagedCluster that the label names.
type ClusterFacts struct {
	// Exists is false for a name that no ManagedCluster has (yet).
	Exists bool
	// Accepted is spec.hubAcceptsClient.
	Accepted bool
	// Denied says that the hub once accepted, or decided about, the cluster and
	// does not accept it now.
	Denied bool
	// Deleting says that the cluster is on its way out.
	Deleting bool
	// Joined says that an agent has joined as this cluster before.
	Joined bool
	// Alive says that the hub hears of an agent that has joined as this cluster.
	Alive bool
	// WaitsFor stands for the user who created the ManagedCluster, as
	// clusterv1.AwaitingMark returns it; "" if that is not known.
	WaitsFor string
	// Requester is the user whose request led to the join, if that is known.
	Requester string
	// Key is the KeyFingerprint of the public key in that request, if that is known.
	Key string
	// Agents are those that have got a certificate of the cluster.
	Agents AgentNames
	// Set is the ManagedClusterSet that it is in, or is to be in.
	Set string
}

// AutoApproval says whose first requests need no administrator.
type AutoApproval struct {
	// Users are exact user names. Empty means nobody.
	Users []string
	// TokenClustersMax is how many clusters may be accepted automatically because of
	// one bootstrap token; 0 is no limit.
	TokenClustersMax int
}

// RequestDecision is what was decided and why.
type RequestDecision struct {
	Verdict RequestVerdict
	Kind    CertificateKind
	// Reason is one of the constants, Message a sentence for an administrator.
	Reason, Message string
	// Agent is the name in the agent's user name, Key the KeyFingerprint of its public key.
	// Others may have the credential that a first request is made with, too, so the
	// hub has to remember both before it approves the request.
	Agent, Key string
}

// DecideRequest decides about a request. The decision depends on nothing but the
// arguments.
func DecideRequest(request SigningRequest, cluster ClusterFacts, automatic AutoApproval) RequestDecision {
	if request.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		request.ClusterLabel == "" || request.AddOnLabel != "" {
		return RequestDecision{Verdict: Ignore}
	}
	decision := RequestDecision{Kind: Bootstrap}
	if isAgent(request.Username, request.Groups) {
		decision.Kind = Renewal
	}
	asked, err := parseSubject(request.PEM)
	if err == nil {
		err = checkUsages(request.Usages)
	}
	if err != nil {
		return decision.withVerdict(Refuse, ReasonMalformed, "not a request of an agent: "+err.Error())
	}
	if reason, why := CheckCluster(request, asked.cluster); reason != "" {
		return decision.withVerdict(Refuse, reason, why)
	}
	decision.Agent = asked.agent
	decision.Key = asked.key
	if decision.Kind == Renewal {
		return decision.decideRenewal(request, cluster)
	}
	return decision.decideBootstrap(request, cluster, automatic)
}

// CheckCluster returns why a request must not give an agent of the cluster permissions that is in its
// subject, whoever has approved it: its label, by which people find it, does not name that one,
// or its user's token is not for the cluster. Both are "" if nothing is wrong.
func CheckCluster(request SigningRequest, cluster string) (reason, message string) {
	if request.ClusterLabel != cluster {
		return ReasonClusterDiffers, fmt.Sprintf(
			"the request is for a certificate of cluster %q but is labelled for cluster %q", cluster, request.ClusterLabel)
	}
	if bounds := boundtoken.BoundsOf(request.Username, request.Groups); !bounds.AllowsCluster(cluster) {
		return ReasonTokenBound, fmt.Sprintf(
			"user %q requests a certificate for cluster %q, but the user's token is bound to: %s", request.Username, cluster, bounds)
	}
	return "", ""
}

// NotAuthorized turns the approval of a renewal into a refusal, for a requester
// who lacks the permission to renew the certificates of the cluster.
func (d RequestDecision) NotAuthorized(user, cluster string) RequestDecision {
	return d.withVerdict(Refuse, ReasonNotAuthorized, fmt.Sprintf(
		"user %q may not renew certificates of cluster %q (managedclusters/clientcertificates)", user, cluster))
}

// TokenExhausted turns the approval of a first request into a refusal, for a cluster that nobody has
// accepted, of a bootstrap token because of which the hub has accepted as many as it may: whatever it
// sends to all clusters, it stores once more for each, and nobody has looked at any of these.
func (d RequestDecision) TokenExhausted(user, cluster string, clustersMax int) RequestDecision {
	return d.withVerdict(Refuse, ReasonNotAutomatic, fmt.Sprintf(
		"the hub has accepted %d clusters automatically for user %q, as many as it may, so an administrator has to accept cluster %[3]q: capstan accept %[3]s; "+
			"annotation %[4]s of the ClusterManager allows more", clustersMax, user, cluster, operatorv1.AnnotationMaxAutomaticClusters))
}

// NamespaceTaken turns the approval of a first request into a refusal, for a cluster that nobody
// has accepted, whose name is that of a namespace which the hub has not made for it: once it is
// accepted, what somebody sends from there is taken back from all clusters.
func (d RequestDecision) NamespaceTaken(cluster string) RequestDecision {
	return d.withVerdict(Refuse, ReasonNotAutomatic, fmt.Sprintf(
		"the hub has a namespace %[1]q that may be somebody else's, so an administrator has to accept cluster %[1]q or, "+
			"if the namespace is intended for it, label it: kubectl label namespace %[1]s %[2]s=%[1]s", cluster, clusterv1.LabelClusterName))
}

// InSetByLabels turns the approval of a first request into a refusal, for a cluster that nobody has
// accepted, whose labels put it into a set: who registers it chooses them, and would get
// what is sent to the set.
func (d RequestDecision) InSetByLabels(cluster, set string) RequestDecision {
	return d.withVerdict(Refuse, ReasonNotAutomatic, fmt.Sprintf(
		"labels of cluster %[1]q, which are the choice of whoever registered it, put it into ManagedClusterSet %[2]q, so an administrator has to "+
			"accept it: capstan accept %[1]s", cluster, set))
}

func (d RequestDecision) decideRenewal(request SigningRequest, cluster ClusterFacts) RequestDecision {
	name := request.ClusterLabel
	switch {
	case request.Username != clusterv1.AgentUser(name, d.Agent):
		return d.withVerdict(Refuse, ReasonIdentity, fmt.Sprintf(
			"user %q requests a certificate for user %q; an agent may only renew its own", request.Username, clusterv1.AgentUser(name, d.Agent)))
	case !onlyGroupsOf(name, request.Groups):
		return d.withVerdict(Refuse, ReasonIdentity, fmt.Sprintf(
			"the groups of user %q are not exactly the agent groups of cluster %q", request.Username, name))
	case !cluster.Exists:
		return d.withVerdict(Refuse, ReasonClusterMissing, fmt.Sprintf("there is no ManagedCluster %q to renew a certificate for", name))
	case !cluster.Accepted:
		return d.withVerdict(Refuse, ReasonClusterDenied, fmt.Sprintf(
			"the hub does not accept cluster %q (spec.hubAcceptsClient is false), so its certificate is not renewed", name))
	}
	return d.withVerdict(Approve, ReasonApproved, fmt.Sprintf("agent %q of cluster %q renews its own certificate", d.Agent, name))
}

// decideBootstrap decides about a first request. Many members share the credential
// that it is made with, so its right ends where anybody has got or decided
// anything before: it gives one certificate to one key, of a cluster that no
// administrator has dealt with and that is in no set of its own.
func (d RequestDecision) decideBootstrap(request SigningRequest, cluster ClusterFacts, automatic AutoApproval) RequestDecision {
	name := request.ClusterLabel
	named := slices.Contains(automatic.Users, request.Username)
	switch {
	case !named && !boundtoken.BoundsOf(request.Username, request.Groups).AcceptsCluster(name):
		return d.withVerdict(Leave, ReasonNotAutomatic, fmt.Sprintf(
			"the first certificate of an agent of cluster %q, requested by %q, needs approval by an administrator", name, request.Username))
	case !cluster.Exists || cluster.Deleting:
		return d.withVerdict(Wait, ReasonClusterMissing, fmt.Sprintf("there is no ManagedCluster %q for this request yet", name))
	case cluster.Denied:
		return d.withVerdict(Refuse, ReasonClusterDenied, fmt.Sprintf(
			"the hub denied cluster %q, so its requests are not approved automatically", name))
	case (cluster.Joined || cluster.Requester != "") && cluster.Requester != request.Username:
		return d.withVerdict(Refuse, ReasonClusterJoined, fmt.Sprintf(
			"cluster %q has already joined, or is joining, through another user than %q; another agent under its name needs approval by an administrator",
			name, request.Username))
	case cluster.Requester != "":
		return d.decideRepeated(request, cluster, named)
	}
	return d.decideFirst(request, cluster)
}

// decideFirst decides about the first request for a cluster that may be approved.
func (d RequestDecision) decideFirst(request SigningRequest, cluster ClusterFacts) RequestDecision {
	name := request.ClusterLabel
	switch {
	case cluster.Accepted:
		return d.withVerdict(Leave, ReasonNotAutomatic, fmt.Sprintf(
			"cluster %q was accepted by an administrator, so an administrator has to approve its agent, too", name))
	case cluster.WaitsFor != "" && cluster.WaitsFor != clusterv1.AwaitingMark(request.Username):
		return d.withVerdict(Leave, ReasonNotAutomatic, fmt.Sprintf(
			"another user than %q has created ManagedCluster %q, with labels of that user's choice, so an administrator has to accept it", request.Username, name))
	case cluster.Set != "" && cluster.Set != clusterv1.DefaultClusterSet:
		return d.withVerdict(Leave, ReasonNotAutomatic, fmt.Sprintf(
			"cluster %q requests the set %q, but only clusters of the set %q are accepted automatically", name, cluster.Set, clusterv1.DefaultClusterSet))
	case cluster.Alive:
		return d.refuseWhileAlive(name)
	}
	return d.withVerdict(Approve, ReasonApproved, fmt.Sprintf("user %q is allowed to have cluster %q accepted automatically", request.Username, name))
}

// decideRepeated decides about a first request by the user whose request was approved
// before. What tells the agent from others with the same credential is its key, but
// once it has joined, nobody gets another certificate while it lives. Its name tells
// nothing: all who have the credential can read it. But each name is a user of its own, so
// one key does not get certificates for several.
func (d RequestDecision) decideRepeated(request SigningRequest, cluster ClusterFacts, named bool) RequestDecision {
	name := request.ClusterLabel
	switch {
	case named && cluster.Joined && cluster.Alive:
		return d.refuseWhileAlive(name)
	case d.Key == cluster.Key && cluster.Agents.allowsAgain(d.Agent) && (named || !cluster.Joined):
		return d.withVerdict(Approve, ReasonApproved, fmt.Sprintf("agent %q of cluster %q requests its certificate again, with the same key", d.Agent, name))
	case named && cluster.Alive:
		return d.refuseWhileAlive(name)
	}
	return d.withVerdict(Refuse, ReasonClusterJoined, fmt.Sprintf(
		"an agent of cluster %q has already received a certificate through user %q; another one needs approval by an administrator",
		name, request.Username))
}

func (d RequestDecision) refuseWhileAlive(cluster string) RequestDecision {
	return d.withVerdict(Refuse, ReasonClusterAlive, fmt.Sprintf(
		"cluster %q has a live agent; another one under its name needs approval by an administrator", cluster))
}

func (d RequestDecision) withVerdict(verdict RequestVerdict, reason, message string) RequestDecision {
	d.Verdict = verdict
	d.Reason = reason
	d.Message = message
	return d
}

// onlyGroupsOf reports whether the requester is in the group of the cluster and
// in no group of another cluster.
func onlyGroupsOf(cluster string, groups []string) bool {
	found := false
	for _, group := range groups {
		switch {
		case group == clusterv1.AgentGroup(cluster):
			found = true
		case group == clusterv1.GroupManagedClusters:
		case isAgent("", []string{group}):
			return false
		}
	}
	return found
}
