// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/watch"
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
	cluster := a.Cluster
	name, err := a.name()
	if err != nil {
		return err
	}
	csrs := &certificatesv1.CertificateSigningRequestList{}
	err = hub.List(ctx, csrs, client.MatchingLabels{clusterv1.LabelClusterName: cluster})
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
		message: fmt.Sprintf("%d certificate signing requests of cluster %q wait on the hub already: approve one of them, "+
			"or delete them: kubectl delete csr -l %s=%s", waiting, cluster, clusterv1.LabelClusterName, cluster),
	}
}

// follow makes exactly those followers run that the decision asks for.
func (m *Machine) follow(ctx context.Context, d decision) {
	m.followCSR(ctx, d.FollowCSR)
	m.followCluster(ctx, d.FollowCluster)
}

// Slots of followers.
const (
	slotCSR     = "csr"
	slotCluster = "cluster"
)

func (m *Machine) followCSR(ctx context.Context, by source) {
	hub, who, err := m.clientOf(by)
	if hub == nil || err != nil {
		m.unfollow(slotCSR)
		return
	}
	name := m.facts.CSR.Name
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source := watch.Single(hub, csr, &certificatesv1.CertificateSigningRequestList{}, m.csrVersion)
	ensureFollower(ctx, m, slotCSR, who+"/"+name, source, func(csr *certificatesv1.CertificateSigningRequest, err error) {
		fact := csrFactOf(name, csr)
		m.see(func(in *incoming) {
			if in.csrProblem = &err; err == nil {
				in.csr = &fact
			}
		})
	})
}

func (m *Machine) followCluster(ctx context.Context, by source) {
	hub, who, err := m.clientOf(by)
	if hub == nil || err != nil {
		m.unfollow(slotCluster)
		return
	}
	name := m.facts.clusterName()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source := watch.Single(hub, mc, &clusterv1.ManagedClusterList{}, m.clusterVersion)
	ensureFollower(ctx, m, slotCluster, who+"/"+name, source, func(mc *clusterv1.ManagedCluster, err error) {
		fact := clusterFactOf(mc, false)
		m.see(func(in *incoming) {
			if by == followByBootstrap {
				in.bootstrapErr = &err
			} else {
				in.hubErr = &err
			}
			if err == nil {
				in.cluster = &fact
			}
		})
	})
}

// clientOf returns the client to follow with, and a name of the credential.
func (m *Machine) clientOf(by source) (client.WithWatch, string, error) {
	switch by {
	case followByBootstrap:
		c, err := m.bootstrapClient()
		return c, "bootstrap/" + m.facts.Bootstrap.Hash, err
	case followByHub:
		c, err := m.hubClient()
		return c, "hub/" + m.facts.Hub.Endpoint.Server + "/" + m.facts.Hub.Agent, err
	}
	return nil, "", nil
}

// ensureFollower starts to watch a single object in the slot, in place of
// another one.
func ensureFollower[T client.Object](ctx context.Context, m *Machine, slot, key string, source watch.Source[T], see watch.See[T]) {
	if running := m.followers[slot]; running != nil {
		if running.key == key {
			return
		}
		running.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	run := watch.Watch[T]{Source: source, Clock: m.options.Clock, Handler: watch.See[T](func(object T, err error) {
		if ctx.Err() == nil {
			see(object, err)
		}
	})}
	m.followers[slot] = &following{key: key, cancel: cancel}
	m.running.Go(func() { run.Run(ctx) })
}

func (m *Machine) unfollow(slot string) {
	if running := m.followers[slot]; running != nil {
		running.cancel()
		delete(m.followers, slot)
	}
}
