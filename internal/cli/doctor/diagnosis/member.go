// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

func memberGiven(e *evidence.Evidence) bool { return e.Member != nil }

// memberSeen is for a member that answers.
func memberSeen(e *evidence.Evidence) bool { return e.Member != nil && !e.Member.Silent }

// agentSeen is for a member with a Klusterlet of this cluster.
func agentSeen(e *evidence.Evidence) bool {
	return memberSeen(e) && e.Member.Klusterlet != nil && !e.Cluster.UsesPushMode()
}

// memberAnswers is no reason to believe that anything is broken but the way from
// here.
func memberAnswers(e *evidence.Evidence) []Finding {
	if e.Member.UID.Err == nil {
		return nil
	}
	return []Finding{unseenFinding("the member "+e.Member.Server, e.Member.UID.Err)}
}

func memberKlusterlet(e *evidence.Evidence) []Finding {
	m := e.Member
	switch {
	case e.Cluster.UsesPushMode():
		return nil // it has none
	case m.Klusterlets.Err != nil:
		return []Finding{unseenFinding("the Klusterlets of the member", m.Klusterlets.Err)}
	case m.Klusterlet == nil && hasClusterJoined(e):
		return []Finding{oddFinding("KlusterletElsewhere", "Klusterlet of cluster "+e.Cluster.Name, "it is not in this cluster",
			"If its agents are hosted, give the kubeconfig of the cluster that they run in with --cluster-kubeconfig.")}
	case m.Klusterlet == nil:
		var others []string
		if m.Klusterlets.Found {
			for _, k := range m.Klusterlets.Value.Items {
				others = append(others, fmt.Sprintf("%s is for cluster %q", k.Name, k.Spec.ClusterName))
			}
		}
		cause := "there is none, so nothing asks to join"
		if len(others) > 0 {
			cause = "none is for this cluster: " + strings.Join(others, ", ")
		}
		return []Finding{brokenFinding("KlusterletMissing", "Klusterlet of cluster "+e.Cluster.Name, cause,
			"\"capstan token create --print-register-command\" on the hub prints the command that installs it.")}
	}
	return append(requiredDeploymentFindings(m.Operator, e.Hub.Now, "Install it again: \"capstan register\" does."), klusterletState(m.Klusterlet)...)
}

func klusterletState(k *operatorv1.Klusterlet) []Finding {
	object := "Klusterlet " + k.Name
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(k.Status.Conditions, kind) }
	if !k.DeletionTimestamp.IsZero() {
		return []Finding{brokenFinding("KlusterletDeleting", object, "it is being deleted", "kubectl describe klusterlet "+k.Name+" shows what it is waiting for.")}
	}
	var found []Finding
	if c := find(operatorv1.KlusterletConditionPaused); c != nil && c.Status == metav1.ConditionTrue {
		found = append(found, oddFinding(c.Reason, object, c.Message, "Remove the annotation when you are done."))
	}
	for _, kind := range []string{operatorv1.KlusterletConditionReadyToApply, operatorv1.KlusterletConditionApplied} {
		if c := find(kind); c != nil && c.Status == metav1.ConditionFalse {
			found = append(found, brokenFinding(c.Reason, object, c.Message, "Do what the message says; \"kubectl describe klusterlet "+k.Name+"\" has the rest."))
		}
	}
	return found
}

// certificateLost reports whether the agent is known to have no certificate that
// the hub takes, so that it has to join anew.
func certificateLost(e *evidence.Evidence) bool {
	if !agentSeen(e) {
		return false
	}
	switch e.Member.HubAnswer.Verdict {
	case probe.SecretMissing, probe.KubeconfigMissing, probe.KubeconfigMalformed, probe.ClusterNameMissing, probe.Unauthorized, probe.Untrusted:
		return true
	default:
		return false
	}
}

// memberBootstrap looks at the credential to join with. As long as the agent has
// a certificate, it may well have expired.
func memberBootstrap(e *evidence.Evidence) []Finding {
	object := fmt.Sprintf("Secret %s/%s", e.Member.AgentNamespace(), operatorv1.BootstrapHubKubeConfigSecret)
	switch {
	case e.Member.Bootstrap.Err != nil:
		return []Finding{unseenFinding(object, e.Member.Bootstrap.Err)}
	case !certificateLost(e):
		return nil
	}
	renew := fmt.Sprintf("capstan token create --print-kubeconfig > hub.kubeconfig; then on the member: kubectl -n %s delete secret %s --ignore-not-found; "+
		"kubectl -n %s create secret generic %s --from-file=kubeconfig=hub.kubeconfig",
		e.Member.AgentNamespace(), operatorv1.BootstrapHubKubeConfigSecret, e.Member.AgentNamespace(), operatorv1.BootstrapHubKubeConfigSecret)
	answer := e.Member.BootstrapAnswer
	switch answer.Verdict {
	case probe.Unchecked, probe.Functional:
		return nil
	case probe.SecretMissing:
		return []Finding{brokenFinding(operatorv1.JoinReasonBootstrapSecretMissing, object, answer.Message, renew)}
	case probe.Unreachable:
		return []Finding{unreachableHubFinding(e, object, answer.Message, renew)}
	case probe.Untrusted:
		return []Finding{brokenFinding(operatorv1.JoinReasonHubCertificateUntrusted, object, answer.Message, renew)}
	case probe.Unauthorized:
		return []Finding{brokenFinding(operatorv1.JoinReasonBootstrapUnauthorized, object, answer.Message+tokenState(e), renew)}
	case probe.Forbidden:
		return []Finding{brokenFinding(operatorv1.JoinReasonBootstrapForbidden, object, answer.Message,
			"Give it a token of \"capstan token create\", whose group has these rights: "+renew)}
	default:
		return []Finding{brokenFinding(operatorv1.JoinReasonBootstrapSecretMalformed, object, answer.Message, renew)}
	}
}

// unreachableHubFinding is for a hub that is not reached from here at the address that the
// member has. What the member itself says counts more.
func unreachableHubFinding(e *evidence.Evidence, object, message, next string) Finding {
	f := brokenFinding(operatorv1.JoinReasonHubUnreachable, object, message, "If the address is wrong: "+next)
	report := reportOf(e.Member)
	if report != "" && report != operatorv1.JoinReasonHubUnreachable && report != operatorv1.JoinReasonChecking {
		f.State = Odd
		f.Next = "The check is made from this machine; the member itself reports no problem."
	}
	return f
}

// reportOf returns the step of the handshake that the agent or the operator of
// the member says it is at; empty if neither says anything.
func reportOf(m *evidence.MemberEvidence) string {
	if c := meta.FindStatusCondition(m.Klusterlet.Status.Conditions, operatorv1.KlusterletJoined); c != nil {
		return c.Reason
	}
	if m.JoinStatus.Found {
		return m.JoinStatus.Value.Data[operatorv1.JoinStatusReasonKey]
	}
	return ""
}

// tokenState says what the hub knows about the bootstrap token of the member.
func tokenState(e *evidence.Evidence) string {
	id := e.Member.BootstrapToken()
	if id == "" || !e.Hub.Tokens.Found {
		return ""
	}
	for i := range e.Hub.Tokens.Value.Items {
		secret := &e.Hub.Tokens.Value.Items[i]
		if string(secret.Data["token-id"]) != id {
			continue
		}
		if _, valid := bootstrapToken(secret, e.Hub.Now); !valid {
			return fmt.Sprintf(" (the bootstrap token %s expired at %s)", id, secret.Data["expiration"])
		}
		return fmt.Sprintf(" (the hub has a bootstrap token %s that is valid: its secret part differs, or the API server of the hub runs without --enable-bootstrap-token-auth)", id)
	}
	return fmt.Sprintf(" (the hub has no bootstrap token %s: it has expired or was deleted)", id)
}

func memberAgents(e *evidence.Evidence) []Finding {
	var found []Finding
	for i, w := range e.Member.Agents {
		look := deploymentFindings // the work agent has no pods before there is a certificate
		if i == 0 {
			look = requiredDeploymentFindings
		}
		found = append(found, look(w, e.Hub.Now, "The operator installs it: check that it is running, and see \"kubectl describe klusterlet "+e.Member.Klusterlet.Name+"\".")...)
	}
	return found
}

// rightsSeen is for agents whose rights are where they run: those of hosted agents
// are in a cluster that is not looked at.
func rightsSeen(e *evidence.Evidence) bool { return agentSeen(e) && !e.Member.Hosted() }

func memberRights(e *evidence.Evidence) []Finding {
	return missingObjectFindings(e.Member.Grants, "AgentRightsMissing", "it is missing, so the agents lack their permissions",
		"The operator recreates it: check that it is running, and see \"kubectl describe klusterlet "+e.Member.Klusterlet.Name+"\".")
}

func memberCredential(e *evidence.Evidence) []Finding {
	m := e.Member
	object := fmt.Sprintf("Secret %s/%s", m.AgentNamespace(), operatorv1.HubKubeConfigSecret)
	if m.Hub.Err != nil {
		return []Finding{unseenFinding(object, m.Hub.Err)}
	}
	anew := fmt.Sprintf("Let it join again; the bootstrap kubeconfig must be valid: kubectl -n %s delete secret %s; then on the hub, once the agent has requested a certificate: capstan accept %s.",
		m.AgentNamespace(), operatorv1.HubKubeConfigSecret, e.Cluster.Name)
	if m.Hub.Found {
		if f, wrong := certificateFinding(e, object, anew); wrong {
			return []Finding{f}
		}
	}
	switch answer := m.HubAnswer; answer.Verdict {
	case probe.Unchecked, probe.Functional:
		return nil
	case probe.SecretMissing, probe.KubeconfigMissing:
		cause := "the agent has no certificate yet"
		if report := m.JoinStatus; report.Found {
			cause += "; it says: " + report.Value.Data[operatorv1.JoinStatusMessageKey]
		}
		return []Finding{brokenFinding("HubCredentialMissing", object, cause, "Fix the previous steps.")}
	case probe.Unreachable:
		return []Finding{unreachableHubFinding(e, object, answer.Message, anew)}
	case probe.Untrusted:
		return []Finding{brokenFinding(operatorv1.JoinReasonHubCertificateUntrusted, object, answer.Message, anew)}
	case probe.Forbidden:
		return []Finding{brokenFinding(operatorv1.JoinReasonHubPermissionsMissing, object, answer.Message, "capstan accept "+e.Cluster.Name)}
	default:
		return []Finding{brokenFinding(operatorv1.JoinReasonHubCredentialInvalid, object, answer.Message, anew)}
	}
}

// certificateFinding looks at the certificate itself, which says more than a refusal.
func certificateFinding(e *evidence.Evidence, object, anew string) (f Finding, wrong bool) {
	leaf := firstCertificate(e.Member.Hub.Value.Data[operatorv1.TLSCertKey])
	switch {
	case leaf == nil:
		return Finding{}, false
	case e.Hub.Now.After(leaf.NotAfter):
		return brokenFinding("HubCertificateExpired", object, "the agent's certificate expired at "+leaf.NotAfter.UTC().Format(time.RFC3339), anew), true
	case !isFor(leaf, e.Cluster.Name):
		return brokenFinding("HubCertificateForOther", object, fmt.Sprintf("the certificate is that of %q", leaf.Subject.CommonName), anew), true
	}
	return Finding{}, false
}

func isFor(leaf *x509.Certificate, cluster string) bool {
	return strings.HasPrefix(leaf.Subject.CommonName, clusterv1.AgentUser(cluster, ""))
}
