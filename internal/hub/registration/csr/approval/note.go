// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// aheadMax is how long before its ManagedCluster the request of an agent may be
// approved.
const aheadMax = time.Minute

// recordAgent notes on the ManagedCluster the agent that a request was approved for, by
// whomever: the permissions of the cluster are for the agents that are noted.
func (c *CSRApprovalController) recordAgent(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	approved := approvalOf(csr)
	if approved == nil {
		return nil
	}
	request := policyRequest(csr)
	cluster, agent, err := policy.CertifiedAgent(request)
	if err != nil {
		return nil //nolint:nilerr // somebody else's certificate
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: cluster}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	known := policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents])
	if known.HasAgent(agent) || !mc.DeletionTimestamp.IsZero() {
		return nil
	}
	if reason, why := policy.CheckCluster(request, cluster); reason != "" {
		return c.warnUnnoted(ctx, csr, mc, policy.RequestDecision{Reason: reason, Message: why})
	}
	earlier, err := c.isOfEarlier(ctx, approved.LastTransitionTime, mc)
	if err != nil {
		return err
	}
	if earlier {
		log.FromContext(ctx).Info("The agent gets no permissions: its request was approved before the ManagedCluster was created",
			"cluster", cluster, "agent", agent)
		return nil
	}
	before := mc.DeepCopy()
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, string(known.WithAgent(agent)))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("noting agent %q on ManagedCluster %q: %w", agent, cluster, err)
	}
	return nil
}

// warnUnnoted tells of a request that somebody has approved although it misleads: the certificate alone gives
// no permissions. It tells on the request and on both clusters, once in a while.
func (c *CSRApprovalController) warnUnnoted(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, certified *clusterv1.ManagedCluster, why policy.RequestDecision,
) error {
	about := []client.Object{csr, certified}
	if labelled := csr.Labels[clusterv1.LabelClusterName]; labelled != "" && labelled != certified.Name {
		mc := &clusterv1.ManagedCluster{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: labelled}, mc); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading ManagedCluster %q: %w", labelled, err)
		} else if err == nil {
			about = append(about, mc)
		}
	}
	for _, object := range about {
		if c.quiet.allowEvent(fmt.Sprintf("unnoted/%T/%s/%s", object, object.GetName(), why.Reason)) {
			c.Events.Eventf(object, csr, corev1.EventTypeWarning, why.Reason, action,
				"CertificateSigningRequest %q of user %q was approved, but gives its agent no permissions: %s", csr.Name, csr.Spec.Username, why.Message)
		}
	}
	return nil
}

// isOfEarlier reports whether what was approved at the time was the request of an
// agent of an earlier ManagedCluster of the name, whose certificate must not count
// any more. Agents of OCM create ManagedCluster and request side by side, so one
// may be approved a moment before; but not where the namespace is there from before.
func (c *CSRApprovalController) isOfEarlier(ctx context.Context, approved metav1.Time, mc *clusterv1.ManagedCluster) (bool, error) {
	switch ahead := mc.CreationTimestamp.Sub(approved.Time); {
	case ahead <= 0:
		return false, nil
	case ahead > aheadMax:
		return true, nil
	}
	namespace := &corev1.Namespace{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: mc.Name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the namespace of ManagedCluster %q: %w", mc.Name, err)
	}
	return err == nil && namespace.CreationTimestamp.Before(&mc.CreationTimestamp), nil
}

// approvalOf returns the condition that says that a request was approved, nil if
// it was not.
func approvalOf(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequestCondition {
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == certificatesv1.CertificateApproved {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}
