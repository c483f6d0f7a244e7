// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/api"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/requests"
)

// signedWithin is how long the controller manager of a hub may take to sign a
// request that is approved.
const signedWithin = 30 * time.Second

func hubChecks() []stepCheck {
	answers := func(e *evidence.Evidence) bool { return e.Hub.Version.Found }
	isHub := func(e *evidence.Evidence) bool { return answers(e) && e.Hub.KnownKinds > 0 }
	isHere := func(e *evidence.Evidence) bool { return isHub(e) && !hostedHub(e.Hub) }
	asksOthersToo := func(e *evidence.Evidence) bool { return isHub(e) && asksOthers(e.Hub) }
	return []stepCheck{
		{OnHub, "api", "the hub answers", nil, hubAnswers},
		{OnHub, "kinds", "it serves the kinds of a hub", answers, hubKinds},
		{OnHub, "operator", "the operator runs", isHub, hubOperator},
		{OnHub, "clustermanager", "the hub is installed", isHere, hubManager},
		{OnHub, "components", "its components run", isHere, hubComponents},
		{OnHub, "webhooks", "its webhooks answer", isHub, hubWebhooks},
		{OnHub, "apis", "the servers of aggregated APIs answer", asksOthersToo, hubAPIs},
		{OnHub, "bootstrap", "clusters may ask to join", isHub, hubBootstrap},
		{OnHub, "signer", "certificates that are approved are signed", isHub, hubSigner},
	}
}

func hubAnswers(e *evidence.Evidence) []Finding {
	err := e.Hub.Version.Err
	if err == nil {
		return nil
	}
	f := brokenFinding("HubUnreachable", e.Hub.Server, err.Error(), "")
	if known := (*exit.Error)(nil); errors.As(err, &known) {
		f.Next = known.Next
	}
	return []Finding{f}
}

func hubKinds(e *evidence.Evidence) []Finding {
	h := e.Hub
	switch {
	case h.KindsErr != nil:
		return []Finding{unseenFinding("the kinds that the hub knows", h.KindsErr)}
	case h.KnownKinds == 0:
		return []Finding{brokenFinding("NoHub", h.Server, "it is not a Capstan hub: it does not serve the kinds of one",
			"Choose the hub with --context, or turn this cluster into one with \"capstan init\".")}
	case len(h.MissingKinds) > 0:
		return []Finding{brokenFinding("KindsMissing", h.Server, "it does not serve these kinds of a hub: "+strings.Join(h.MissingKinds, ", "),
			"The operator installs them: see the next steps, and \"kubectl describe clustermanager\".")}
	}
	return nil
}

func hubOperator(e *evidence.Evidence) []Finding {
	if hostedHub(e.Hub) {
		return []Finding{oddFinding("HubHosted", e.Hub.Server, "there is no ClusterManager here: the hub is installed from another cluster, where its pods run",
			"Look there: kubectl describe clustermanager.")}
	}
	return requiredDeploymentFindings(e.Hub.Operator, e.Hub.Now, "Install it with \"capstan init\".")
}

// hostedHub reports whether the hub was installed from another cluster.
func hostedHub(h *evidence.HubEvidence) bool {
	none := h.Managers.IsAbsent() || h.Managers.Found && len(h.Managers.Value.Items) == 0
	return none && h.Operator.Deployment.IsAbsent()
}

func hubManager(e *evidence.Evidence) []Finding {
	switch h := e.Hub; {
	case h.Managers.Err != nil:
		return []Finding{unseenFinding("the ClusterManagers", h.Managers.Err)}
	case !h.Managers.Found || len(h.Managers.Value.Items) == 0:
		return []Finding{brokenFinding("ClusterManagerMissing", "ClusterManager "+evidence.OperatorName, "there is none, so the operator installs nothing",
			"Create one with \"capstan init\".")}
	}
	var found []Finding
	for i := range e.Hub.Managers.Value.Items {
		found = append(found, installationFindings(&e.Hub.Managers.Value.Items[i])...)
	}
	return found
}

func installationFindings(cm *operatorv1.ClusterManager) []Finding {
	object := "ClusterManager " + cm.Name
	look := fmt.Sprintf("Do what the message says; \"kubectl describe clustermanager %s\" has the rest.", cm.Name)
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(cm.Status.Conditions, kind) }
	if !cm.DeletionTimestamp.IsZero() {
		cause := "the hub is being removed"
		if c := find(operatorv1.ClusterManagerConditionDeleting); c != nil {
			cause += ": " + c.Message
		}
		return []Finding{brokenFinding("HubDeleting", object, cause, look)}
	}
	var found []Finding
	if c := find(operatorv1.ClusterManagerConditionPaused); c != nil && c.Status == metav1.ConditionTrue {
		found = append(found, oddFinding(c.Reason, object, c.Message, "Remove the annotation when you are done."))
	}
	switch c := find(operatorv1.ClusterManagerConditionApplied); {
	case c == nil:
		found = append(found, brokenFinding("NotApplied", object, "the operator has not processed it yet", "Check that the operator is running, and see its log."))
	case c.Status != metav1.ConditionTrue:
		found = append(found, brokenFinding(c.Reason, object, c.Message, look))
	}
	return found
}

func hubComponents(e *evidence.Evidence) []Finding {
	var found []Finding
	for _, w := range e.Hub.Components {
		look := requiredDeploymentFindings
		if isPushAgent(w) {
			look = deploymentFindings // it has pods only while there are Push clusters
		}
		found = append(found, look(w, e.Hub.Now, "The operator installs it: fix the previous steps.")...)
	}
	return found
}

func isPushAgent(w evidence.Workload) bool { return strings.HasSuffix(w.Name, "-push-agent") }

func hubBootstrap(e *evidence.Evidence) []Finding {
	found := missingObjectFindings(e.Hub.Bootstrap, "BootstrapRightsMissing", "it is missing, so nobody may ask to join",
		"The operator installs it: fix the previous steps.")
	if e.Hub.Tokens.Err != nil {
		return append(found, unseenFinding("the bootstrap tokens", e.Hub.Tokens.Err))
	}
	if !e.Hub.Tokens.Found {
		return found
	}
	expired := 0
	usable := 0
	for i := range e.Hub.Tokens.Value.Items {
		switch joins, valid := bootstrapToken(&e.Hub.Tokens.Value.Items[i], e.Hub.Now); {
		case joins && valid:
			usable++
		case joins:
			expired++
		}
	}
	if expired > 0 && usable == 0 {
		found = append(found, oddFinding("BootstrapTokensExpired", "the bootstrap tokens in namespace kube-system",
			fmt.Sprintf("all that let clusters ask to join have expired (%d); the token cleaner of the hub's controller manager should have deleted them", expired),
			"Create a new one for clusters that have yet to join: capstan token create."))
	}
	return found
}

// bootstrapToken reports whether a token lets clusters ask to join, and whether it
// is valid still.
func bootstrapToken(secret *corev1.Secret, now time.Time) (joins, valid bool) {
	data := func(key string) string { return string(secret.Data[key]) }
	groups := strings.Split(data(api.BootstrapTokenExtraGroupsKey), ",")
	for _, group := range groups {
		if group == clusterv1.GroupBootstrappers || strings.HasPrefix(group, clusterv1.GroupBootstrappers+":") {
			joins = true
		}
	}
	joins = joins && data(api.BootstrapTokenUsageAuthentication) == "true"
	expiration := data(api.BootstrapTokenExpirationKey)
	until, err := time.Parse(time.RFC3339, expiration)
	return joins, expiration == "" || err == nil && until.After(now)
}

// hubSigner finds out by what waits whether anybody signs.
func hubSigner(e *evidence.Evidence) []Finding {
	if e.Hub.Requests.Err != nil {
		return []Finding{unseenFinding("the certificate requests", e.Hub.Requests.Err)}
	}
	if !e.Hub.Requests.Found {
		return nil
	}
	for i := range e.Hub.Requests.Value.Items {
		request := &e.Hub.Requests.Value.Items[i]
		since, approved := approvedSince(request)
		if approved && len(request.Status.Certificate) == 0 && e.Hub.Now.Sub(since) > signedWithin {
			return []Finding{brokenFinding("SignerSilent", "CertificateSigningRequest "+requests.PrintableName(request),
				fmt.Sprintf("it was approved but has not been signed for more than %s: the controller manager of the hub's Kubernetes signs for %s",
					signedWithin, request.Spec.SignerName),
				"Check that kube-controller-manager on the hub runs with --cluster-signing-cert-file and --cluster-signing-key-file, and what it logs.")}
		}
	}
	return nil
}

// approvedSince tells since when a request has been approved, if it was and did not
// fail.
func approvedSince(request *certificatesv1.CertificateSigningRequest) (since time.Time, approved bool) {
	for _, c := range request.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			since = c.LastUpdateTime.Time
			approved = true
		case certificatesv1.CertificateFailed, certificatesv1.CertificateDenied:
			return time.Time{}, false
		}
	}
	return since, approved
}
