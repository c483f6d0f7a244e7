// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// certificates keeps the serving certificates of the webhook servers.
func (c *Controller) certificates(ctx context.Context, p *pass) error {
	trusted, err := p.site.trustedBundles(ctx, p.hub)
	if err != nil {
		return err
	}
	bundle, due, err := c.rotator(p.hub).Rotate(ctx, manifests.ServingCertificates(p.hub), trusted)
	if err != nil {
		return err
	}
	p.hub.CABundle = bundle
	p.dueBy(due)
	return nil
}

// trustedBundles returns what API servers verify the webhook servers with.
func (s *site) trustedBundles(ctx context.Context, h manifests.Hub) ([][]byte, error) {
	var bundles [][]byte
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	if err := s.client.List(ctx, mutating, client.MatchingLabels(h.Owner())); err != nil {
		return nil, fmt.Errorf("listing the mutating webhook configurations: %w", err)
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			bundles = append(bundles, mutating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := s.client.List(ctx, validating, client.MatchingLabels(h.Owner())); err != nil {
		return nil, fmt.Errorf("listing the validating webhook configurations: %w", err)
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			bundles = append(bundles, validating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	return bundles, nil
}

// webhooks installs the webhook configurations once the servers run as the spec
// has it: before that nobody would answer.
func (c *Controller) webhooks(ctx context.Context, p *pass) error {
	if rolling := rollingNow(p.rollouts); rolling != "" {
		return waitError{operatorv1.ClusterManagerReasonInstalling, rolling}
	}
	return p.install(ctx, p.site.applier, manifests.Webhooks(p.hub))
}
