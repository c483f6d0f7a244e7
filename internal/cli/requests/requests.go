// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests sorts the certificate requests of clusters: which of them
// wait for an administrator, and which of these may be approved.
//
// It decides only: it has no client and no clock.
package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// nameBytes are those of which names consist that agents make.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// labelAddOn is on the requests of add-ons, whose certificates have nothing to
// do with the acceptance of a cluster.
const labelAddOn = "open-cluster-management.io/addon-name"

// ReadyRequest is a request that may be approved.
type ReadyRequest struct {
	Request *certificatesv1.CertificateSigningRequest
	// Agent is the name of the agent that it is for, Key the fingerprint of its public
	// key. Whoever may ask can choose any name, so that only the key tells agents apart.
	Agent, Key string
}

// RefusedRequest is a request that must not be approved.
type RefusedRequest struct {
	Request *certificatesv1.CertificateSigningRequest
	// Why is a sentence for the administrator.
	Why string
}

// SortedRequests are the requests of one cluster that matter for its acceptance. All are
// in the order of their age, the oldest first.
type SortedRequests struct {
	// Ready wait for an administrator, and are in order.
	Ready []ReadyRequest
	// Refused wait, too, but ask for something else than the certificate of one
	// agent of this cluster, or are not from who they say.
	Refused []RefusedRequest
	// Renewals wait for the hub, which approves them by itself.
	Renewals []*certificatesv1.CertificateSigningRequest
	// Approved have been approved before.
	Approved []*certificatesv1.CertificateSigningRequest
}

// Sort sorts the requests that carry the label of the cluster.
func Sort(cluster string, all []certificatesv1.CertificateSigningRequest) SortedRequests {
	var sorted SortedRequests
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b certificatesv1.CertificateSigningRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		request := &all[i]
		switch {
		case request.Labels[clusterv1.LabelClusterName] != cluster:
		case hasCondition(request, certificatesv1.CertificateApproved):
			sorted.Approved = append(sorted.Approved, request)
		case IsPending(request):
			sorted.sortPending(cluster, request)
		}
	}
	return sorted
}

func (s *SortedRequests) sortPending(cluster string, request *certificatesv1.CertificateSigningRequest) {
	// The administrator is about to accept the cluster, so it is judged as if
	// that had happened.
	decision := policy.DecideRequest(policy.SigningRequest{
		SignerName: request.Spec.SignerName, Usages: request.Spec.Usages,
		Username: request.Spec.Username, Groups: request.Spec.Groups, PEM: request.Spec.Request,
		ClusterLabel: cluster, AddOnLabel: request.Labels[labelAddOn],
	}, policy.ClusterFacts{Exists: true, Accepted: true}, policy.AutoApproval{})
	switch decision.Verdict {
	case policy.Ignore:
	case policy.Refuse, policy.Wait:
		s.Refused = append(s.Refused, RefusedRequest{Request: request, Why: decision.Message})
	case policy.Leave, policy.Approve:
		if PrintableName(request) != request.Name {
			s.Refused = append(s.Refused, RefusedRequest{Request: request, Why: "its name is none that an agent makes"})
			return
		}
		s.sortApprovable(request, decision)
	}
}

// sortApprovable sorts a request that may be approved. A first one that the hub would approve by itself, and that
// still waits, was left to the administrator for a reason that the hub knows.
func (s *SortedRequests) sortApprovable(request *certificatesv1.CertificateSigningRequest, decision policy.RequestDecision) {
	if decision.Kind == policy.Renewal {
		s.Renewals = append(s.Renewals, request)
		return
	}
	s.Ready = append(s.Ready, ReadyRequest{Request: request, Agent: decision.Agent, Key: decision.Key})
}

// PrintableName returns the name of a request for what we print, commands that we suggest among it.
// API servers take any text for it, such as several lines, options, and what a shell
// runs: of a name that no agent makes, what is unusual is shown as \x3b and the like.
func PrintableName(request *certificatesv1.CertificateSigningRequest) string {
	var shown strings.Builder
	for i, c := range []byte(request.Name) {
		if strings.IndexByte(nameBytes, c) < 0 || i == 0 && c == '-' {
			fmt.Fprintf(&shown, `\x%02x`, c)
		} else {
			shown.WriteByte(c)
		}
	}
	return shown.String()
}

// IsAgentRequest reports whether the request is one of an agent for its certificate on the
// hub, and not one of an add-on or for another signer.
func IsAgentRequest(request *certificatesv1.CertificateSigningRequest) bool {
	return request.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && request.Labels[labelAddOn] == ""
}

// IsPending reports whether nobody has decided about the request yet.
func IsPending(request *certificatesv1.CertificateSigningRequest) bool {
	return !hasCondition(request, certificatesv1.CertificateApproved) && !hasCondition(request, certificatesv1.CertificateDenied) &&
		!hasCondition(request, certificatesv1.CertificateFailed)
}

func hasCondition(request *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}
