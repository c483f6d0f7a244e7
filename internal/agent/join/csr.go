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
			return csrFact{State: csrDenied, Name: name, Detail: why(condition)}
		case certificatesv1.CertificateFailed:
			return csrFact{State: csrFailed, Name: name, Detail: why(condition)}
		case certificatesv1.CertificateApproved:
			fact.State = csrApproved
		}
	}
	if len(csr.Status.Certificate) > 0 {
		fact.State, fact.Certificate = csrIssued, csr.Status.Certificate
	}
	return fact
}

func why(condition certificatesv1.CertificateSigningRequestCondition) string {
	return strings.Trim(condition.Reason+": "+condition.Message, ": ")
}

// checkFlood refuses to add to many requests for the cluster that wait. An
// agent that may not list requests cannot know them; as it keeps the key of
// its own request, it never makes a second one.
func checkFlood(ctx context.Context, hub client.Client, a *application, explain explainer) error {
	cluster, name := a.Cluster, a.name()
	csrs := &certificatesv1.CertificateSigningRequestList{}
	err := hub.List(ctx, csrs, client.MatchingLabels{clusterv1.LabelClusterName: cluster})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return explain(fmt.Sprintf("listing the certificate signing requests of cluster %q", cluster), err)
	}
	waiting := 0
	for i := range csrs.Items {
		if csrs.Items[i].Name == name {
			return nil // it is there already
		}
		if csrFactOf("", &csrs.Items[i]).State == csrWaiting {
			waiting++
		}
	}
	if waiting < clusterv1.CSRsPerClusterMax {
		return nil
	}
	return &stepError{
		reason: operatorv1.JoinReasonTooManyPendingCSRs,
		message: fmt.Sprintf("%d certificate signing requests of cluster %q are already pending on the hub: approve one of them, "+
			"or delete them: kubectl delete csr -l %s=%s", waiting, cluster, clusterv1.LabelClusterName, cluster),
	}
}
