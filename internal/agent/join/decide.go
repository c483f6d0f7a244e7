// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// lookAgainMax is the longest time after which the facts are looked at again,
// so that a clock that was set does not delay a renewal for long.
const lookAgainMax = 10 * time.Minute

// bootstrapState is what is known of the bootstrap kubeconfig.
type bootstrapState int

const (
	bootstrapUnknown bootstrapState = iota // not read yet
	bootstrapMissing
	bootstrapMalformed
	bootstrapPresent
)

// bootstrapFact is the bootstrap kubeconfig.
type bootstrapFact struct {
	State bootstrapState
	// Problem tells what is missing or malformed, and where.
	Problem  string
	Endpoint connect.HubEndpoint
	// Hash changes with the kubeconfig.
	Hash string
}

// csrState is what is known of our certificate signing request.
type csrState int

const (
	csrUnknown  csrState = iota // not made, or not found again yet
	csrWaiting                  // nobody has approved it
	csrApproved                 // approved, and not signed yet
	csrIssued
	csrDenied
	csrFailed
	csrGone // deleted on the hub before it was answered
)

// csrFact is our certificate signing request on the hub.
type csrFact struct {
	State csrState
	Name  string
	// Detail is the reason of a denial or failure as the hub tells it.
	Detail string
	// Certificate is the answer, PEM.
	Certificate []byte
}

// clusterState is what is known of our ManagedCluster.
type clusterState int

const (
	clusterUnknown clusterState = iota
	clusterAbsent
	clusterWaiting  // hubAcceptsClient has not been true yet
	clusterDenied   // it was true before
	clusterTwin     // it is true, and the hub has the same cluster under another name
	clusterAccepted // it is true, and the hub says that all is prepared
	clusterPreparing
)

// clusterFact is our ManagedCluster on the hub.
type clusterFact struct {
	State clusterState
	// UID of the ManagedCluster; empty if there is none.
	UID types.UID
	// Agents are those that the hub has noted for it; none if it notes none.
	Agents policy.AgentNames
	// Detail is what the hub says of the acceptance.
	Detail string
}

// authFact is how the hub answered to the hub credential.
type authFact int

const (
	authUnknown   authFact = iota // not asked yet
	authAdmitted                  // it may see its ManagedCluster
	authPermitted                 // and has its rights in its namespace
	authForbidden                 // it is known, and may not see its ManagedCluster
	authRefused                   // it is not known to the hub (401)
)

// engagement is the identity and hub that the parts work for.
type engagement struct {
	identity
	Endpoint connect.HubEndpoint
}

// joinFacts is everything that a decision depends on.
type joinFacts struct {
	Now time.Time
	// WantedName is the configured name of the cluster. May be empty.
	WantedName string
	Bootstrap  bootstrapFact
	// BootstrapRefused is true while the hub does not let the bootstrap
	// kubeconfig see the ManagedCluster.
	BootstrapRefused bool
	// HomeRead is false as long as the agent's own secrets are not read.
	HomeRead bool
	// Hub is the hub credential; nil if there is none.
	Hub *hubCredential
	// HubProblem tells what is wrong with the secret, if it cannot be used.
	HubProblem string
	// Application waits for its answer; nil if there is none.
	Application *application
	// Applied is true when this process has seen the hub take the application.
	Applied bool
	CSR     csrFact
	// CSRProblem is why the request cannot be followed; nil if it can.
	CSRProblem *stepError
	// PendingStored is true while the secret with a pending key exists.
	PendingStored bool
	// ApplyAt is when the agent may apply for another certificate: it waits if
	// several were issued in a row, as they would be for ever if the clocks of
	// hub and agent are far apart.
	ApplyAt time.Time
	Cluster clusterFact
	Auth    authFact
	// VerifyAt is when the hub may be asked again about the credential.
	VerifyAt time.Time
	// Recheck is true when an answer to a part raised doubts on the credential.
	Recheck bool
	Engaged *engagement
	// PublishedCA is what the hub publishes in place of the CA of the hub credential;
	// empty if that is the same.
	PublishedCA []byte
}

// joinAction is what to do next.
type joinAction int

const (
	doNothing   joinAction = iota
	doStartOver            // forget the hub credential, whose ManagedCluster was deleted
	doRegister             // announce the cluster and apply for a certificate, with the bootstrap kubeconfig
	doRenew                // apply for a certificate with the hub credential
	doStore                // keep the certificate that was issued
	doVerify               // ask the hub what the hub credential may do
	doNote                 // note on the hub credential what it works for
	doEngage               // start the parts
	doDisengage            // end them
	doForget               // delete the key of an application that was answered
	doTrust                // verify the hub by the CA that it publishes
)

// credentialSource is the credential that something on the hub is followed with.
type credentialSource int

const (
	followNothing credentialSource = iota
	followByBootstrap
	followByHub
)

// joinDecision is what to do, what to watch meanwhile, what to tell the user, and
// when to decide again at the latest.
type joinDecision struct {
	Do            joinAction
	FollowCSR     credentialSource
	FollowCluster credentialSource
	Reason        string // empty leaves what was told before
	Message       string
	Again         time.Duration
}

// decideNext looks at the facts only.
func decideNext(f joinFacts) joinDecision {
	if f.Bootstrap.State == bootstrapUnknown || !f.HomeRead {
		return joinDecision{}
	}
	var d joinDecision
	if why := f.unusableReason(); why != "" {
		d = f.decideByBootstrap(why)
	} else {
		d = f.decideWithCredential()
	}
	if f.Application == nil && f.Now.Before(f.ApplyAt) && (d.Do == doRegister || d.Do == doRenew) {
		d = f.pauseApplying(d)
	}
	d.Again = f.timeToNextChange()
	return d
}

// pauseApplying takes back the decision to apply for a certificate.
func (f joinFacts) pauseApplying(d joinDecision) joinDecision {
	if d.Do == doRegister {
		d.Reason, d.Message = operatorv1.JoinReasonHubCredentialInvalid,
			fmt.Sprintf("The hub keeps issuing certificates, but still %s. Compare the clocks of the hub and of this cluster. "+
				"The agent retries with increasing backoff.", f.unusableReason())
	}
	d.Do = doNothing
	return d
}

// unusableReason tells why the hub credential cannot be used, and nothing if it can.
func (f joinFacts) unusableReason() string {
	switch {
	case f.HubProblem != "":
		return f.HubProblem
	case f.Hub == nil:
		return "the agent has no hub credential yet"
	case f.WantedName != "" && f.WantedName != f.Hub.Cluster:
		return fmt.Sprintf("the hub credential is for cluster %q, but the cluster's name is now %q", f.Hub.Cluster, f.WantedName)
	case f.Bootstrap.State == bootstrapPresent && !f.Hub.leadsTo(f.Bootstrap.Endpoint):
		return fmt.Sprintf("the bootstrap kubeconfig has another hub or other connection settings than the hub credential for %s", f.Hub.Endpoint.Server)
	case !f.Now.Before(f.Hub.NotAfter):
		return "the hub credential has expired"
	case f.Auth == authRefused:
		return "the hub no longer accepts the hub credential"
	}
	return ""
}

// clusterName returns the name to join under, or none if it is to be made up.
func (f joinFacts) clusterName() string {
	switch {
	case f.WantedName != "":
		return f.WantedName
	case f.Hub != nil:
		return f.Hub.Cluster
	case f.Application != nil:
		return f.Application.Cluster
	}
	return ""
}

// decideByBootstrap is for an agent without a credential that it could use.
func (f joinFacts) decideByBootstrap(why string) joinDecision {
	if f.Bootstrap.State != bootstrapPresent {
		reason := operatorv1.JoinReasonBootstrapSecretMissing
		if f.Bootstrap.State == bootstrapMalformed {
			reason = operatorv1.JoinReasonBootstrapSecretMalformed
		}
		return joinDecision{Reason: reason, Message: fmt.Sprintf("%s; %s", f.Bootstrap.Problem, why)}
	}
	name := f.clusterName()
	if name != "" {
		if err := validateClusterName(name); err != nil {
			return joinDecision{Reason: operatorv1.JoinReasonClusterNameInvalid, Message: toSentence(err.Error())}
		}
	}
	if !f.hasApplied(name, f.Bootstrap.Endpoint.Server) || f.CSR.State == csrGone || f.Cluster.State == clusterAbsent {
		return joinDecision{Do: doRegister}
	}
	d := joinDecision{FollowCSR: followByBootstrap, FollowCluster: followByBootstrap}
	if f.CSR.State == csrIssued {
		d.Do = doStore
		return d
	}
	if f.Cluster.State == clusterTwin {
		d.Reason, d.Message = operatorv1.JoinReasonClusterAlreadyJoined, twinMessage(name, f.Cluster.Detail)
		return d
	}
	if f.CSRProblem != nil {
		d.Reason, d.Message = f.CSRProblem.reason, toSentence(f.CSRProblem.Error())
		return d
	}
	if d.Reason, d.Message = f.waitingForCSR(); f.Hub != nil {
		d.Message = toSentence(why) + " " + d.Message
	}
	return d
}

// hasApplied reports whether our application is for the name at the server, and the
// hub has it.
func (f joinFacts) hasApplied(name, server string) bool {
	a := f.Application
	return a != nil && f.Applied && (name == "" || a.Cluster == name) && a.Server == server
}

// decideWithCredential is for an agent with a credential.
func (f joinFacts) decideWithCredential() joinDecision {
	switch {
	case f.engagedOtherwise():
		return joinDecision{Do: doDisengage}
	case f.Engaged == nil && f.outlivedCluster():
		return joinDecision{Do: doStartOver}
	case f.Cluster.State == clusterAbsent:
		return f.decideOutside(operatorv1.JoinReasonClusterDeleted, deletedMessage(f.Hub.Cluster))
	case f.Cluster.State == clusterDenied:
		return f.decideOutside(operatorv1.JoinReasonClusterDenied, deniedMessage(f.Hub.Cluster))
	case f.Cluster.State == clusterTwin:
		return f.decideOutside(operatorv1.JoinReasonClusterAlreadyJoined, twinMessage(f.Hub.Cluster, f.Cluster.Detail))
	case f.Cluster.State == clusterWaiting:
		return f.decideOutside(operatorv1.JoinReasonWaitingForAcceptance, acceptMessage(f.Hub.Cluster))
	case f.Engaged != nil && f.Auth == authForbidden:
		return joinDecision{Do: doDisengage}
	case f.Auth == authPermitted && f.lacksMembership():
		return joinDecision{Do: doNote}
	case f.Engaged == nil && f.Auth == authPermitted:
		return joinDecision{Do: doEngage}
	case f.Engaged == nil:
		return f.decideVerification()
	}
	return f.decideEngaged()
}

// decideOutside is for an agent that the hub does not let in now. Whoever may see
// the ManagedCluster waits for it to change.
func (f joinFacts) decideOutside(reason, message string) joinDecision {
	if f.Engaged != nil {
		return joinDecision{Do: doDisengage, Reason: reason, Message: message}
	}
	d := f.verifyOrWait()
	d.Reason, d.Message = reason, message
	return d
}

// verifyOrWait asks the hub when it is time to and watches the ManagedCluster
// with whatever may.
func (f joinFacts) verifyOrWait() joinDecision {
	var d joinDecision
	switch {
	case f.Auth == authAdmitted || f.Auth == authPermitted:
		d.FollowCluster = followByHub
		return d // the watch tells
	case f.Bootstrap.State == bootstrapPresent && (f.Auth == authForbidden || f.Cluster.State != clusterUnknown):
		d.FollowCluster = followByBootstrap
		if f.Auth == authForbidden && !f.BootstrapRefused {
			return d
		}
	}
	if !f.Now.Before(f.VerifyAt) {
		d.Do = doVerify
	}
	return d
}

// decideVerification is for an agent that seems to be accepted but has not its rights yet,
// or does not know.
func (f joinFacts) decideVerification() joinDecision {
	d := f.verifyOrWait()
	if f.Cluster.State != clusterUnknown && !f.Now.Before(f.VerifyAt) {
		d.Do = doVerify // accepted: its rights follow soon
	}
	switch {
	case f.Auth == authUnknown:
	case f.Cluster.State == clusterUnknown:
		d.Reason, d.Message = operatorv1.JoinReasonWaitingForAcceptance, acceptMessage(f.Hub.Cluster)
	default:
		d.Reason = operatorv1.JoinReasonHubPermissionsMissing
		d.Message = permissionsMessage(f.Hub.Cluster, f.Cluster.Detail)
	}
	return d
}

// decideEngaged is for an agent whose parts are at work.
func (f joinFacts) decideEngaged() joinDecision {
	d := joinDecision{
		Reason:  operatorv1.JoinReasonJoined,
		Message: fmt.Sprintf("The cluster has joined as %q at %s.", f.Hub.Cluster, f.Hub.Endpoint.Server),
	}
	switch {
	case f.Recheck && !f.Now.Before(f.VerifyAt):
		d.Do = doVerify
	case f.PendingStored && f.Application == nil:
		d.Do = doForget
	case len(f.PublishedCA) > 0:
		d.Do = doTrust
	case f.Now.Before(f.Hub.renewAt()):
	case !f.hasApplied(f.Hub.Cluster, f.Hub.Endpoint.Server) || f.CSR.State == csrGone:
		d.Do = doRenew
	case f.CSR.State == csrIssued:
		d.Do = doStore
	default:
		d.FollowCSR = followByHub
	}
	return d
}

// timeToNextChange returns the time until the facts change by time alone.
func (f joinFacts) timeToNextChange() time.Duration {
	again := lookAgainMax
	times := []time.Time{f.VerifyAt, f.ApplyAt}
	if f.Hub != nil {
		times = append(times, f.Hub.renewAt(), f.Hub.NotAfter)
	}
	for _, t := range times {
		if left := t.Sub(f.Now); left > 0 {
			again = min(again, left)
		}
	}
	return again
}
