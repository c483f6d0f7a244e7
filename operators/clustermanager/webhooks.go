// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/certs"
	"github.com/capstan-io/capstan/internal/install"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// certificates keeps the serving certificates of the webhook servers.
func (i *installation) certificates(ctx context.Context, p *pass) error {
	trusted, err := trustedBundles(ctx, p.target, p.hub)
	if err != nil {
		return err
	}
	bundle, due, err := i.rotator(p.hub).Rotate(ctx, manifests.ServingCertificates(p.hub), trusted)
	if err != nil {
		return err
	}
	p.hub.CABundle = bundle
	p.DueBy(due)
	return nil
}

// rotator returns what keeps the certificates of the hub.
func (i *installation) rotator(h manifests.Hub) *certs.Rotator {
	return &certs.Rotator{
		Client: i.Client, Reader: i.Reader, Clock: i.Clock, Owner: FieldOwner,
		Namespace: h.Namespace(), Labels: h.Owner(),
		SignerSecret: operatorv1.SignerSecret, BundleConfigMap: operatorv1.CABundleConfigMap,
	}
}

// trustedBundles returns what API servers verify the webhook servers with.
func trustedBundles(ctx context.Context, hub *install.Target, h manifests.Hub) ([][]byte, error) {
	var bundles [][]byte
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	if err := hub.Client.List(ctx, mutating, client.MatchingLabels(h.Owner())); err != nil {
		return nil, fmt.Errorf("listing the mutating webhook configurations: %w", err)
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			bundles = append(bundles, mutating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := hub.Client.List(ctx, validating, client.MatchingLabels(h.Owner())); err != nil {
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
func (i *installation) webhooks(ctx context.Context, p *pass) error {
	if rolling := status.Rolling(p.rollouts); rolling != "" {
		return waitFor(operatorv1.ClusterManagerReasonInstalling, rolling)
	}
	return p.apply(ctx, p.target, manifests.Webhooks(p.hub))
}

// definitions installs the kinds of the hub and waits until they are served.
func (i *installation) definitions(ctx context.Context, p *pass) error {
	set := i.definitionsOf(p.hub)
	done, err := set.Install(ctx, p.target, inventory(p.Object))
	p.Records = append(p.Records, done.Records...)
	if err != nil {
		return err
	}
	if !done.Written && status.IsTrue(p.Object.Status.Conditions, operatorv1.ClusterManagerConditionApplied) {
		return nil
	}
	missing, err := set.Unserved(ctx, p.target)
	if err == nil && len(missing) > 0 {
		err = waitFor(operatorv1.ClusterManagerReasonInstalling, "CustomResourceDefinitions are not established yet: "+strings.Join(missing, ", "))
	}
	return err
}
