// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// csrFactOf reads the fact from the object; nil is for one that is absent.
func csrFactOf(name string, csr *certificatesv1.CertificateSigningRequest) csrFact {
	if csr == nil {
		return csrFact{State: csrGone, Name: name}
	}
	fact := csrFact{State: csrWaiting, Name: name}
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateDenied:
			return csrFact{State: csrDenied, Name: name, Detail: csrConditionText(condition)}
		case certificatesv1.CertificateFailed:
			return csrFact{State: csrFailed, Name: name, Detail: csrConditionText(condition)}
		case certificatesv1.CertificateApproved:
			fact.State = csrApproved
		}
	}
	if len(csr.Status.Certificate) > 0 {
		fact.State = csrIssued
		fact.Certificate = csr.Status.Certificate
	}
	return fact
}

func csrConditionText(condition certificatesv1.CertificateSigningRequestCondition) string {
	return strings.Trim(condition.Reason+": "+condition.Message, ": ")
}

// checkPendingCSRs refuses to add to many requests of this agent that wait. It is for an agent
// that has a user of its own on the hub: the requests of others, which anybody can make in
// the name of the cluster who may ask to join, keep no agent from renewing its certificate.
// One that joins shares its user with others, so that it cannot tell which requests are its
// own; as it keeps the key of its request, it never makes a second one, and the hub limits
// what comes from the user.
func checkPendingCSRs(ctx context.Context, hub client.Client, a *application, explain errorExplainer) error {
	cluster := a.Cluster
	csrs := &certificatesv1.CertificateSigningRequestList{}
	err := hub.List(ctx, csrs, client.MatchingLabels{clusterv1.LabelClusterName: cluster})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return explain(fmt.Sprintf("listing the certificate signing requests of cluster %q", cluster), err)
	}
	waiting := pendingCSRsOfAgent(a, csrs.Items)
	if len(waiting) < clusterv1.CSRsPerAgentMax {
		return nil
	}
	return &stepError{
		reason: operatorv1.JoinReasonTooManyPendingCSRs,
		message: fmt.Sprintf("%d certificate signing requests of agent %q are already pending on the hub: approve one of them, "+
			"or delete them: kubectl delete csr %s", len(waiting), clusterv1.AgentUser(cluster, a.Agent), strings.Join(waiting, " ")),
	}
}

// pendingCSRsOfAgent returns the names of the requests that wait and that the agent of the
// application has made besides that one, none if the application is among them.
func pendingCSRsOfAgent(a *application, csrs []certificatesv1.CertificateSigningRequest) []string {
	name := a.requestName()
	user := clusterv1.AgentUser(a.Cluster, a.Agent)
	var waiting []string
	for i := range csrs {
		if csrs[i].Name == name {
			return nil // it is there already
		}
		if csrs[i].Spec.Username == user && csrFactOf("", &csrs[i]).State == csrWaiting {
			waiting = append(waiting, csrs[i].Name)
		}
	}
	return waiting
}
