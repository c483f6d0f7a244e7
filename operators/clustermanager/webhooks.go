// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/clustermanager/aggregation"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

const (
	// apiRecheck is how often it is looked whether the Cluster API is available.
	apiRecheck = time.Minute
	// foreignRecheck is how often it is looked whether definitions of somebody else
	// are gone, which nothing watches.
	foreignRecheck = time.Minute
)

// rotateServingCertificates keeps the serving certificates of the servers, and removes those
// that nobody serves with any more.
func (i *hubInstallation) rotateServingCertificates(ctx context.Context, p *clusterManagerPass) error {
	trusted, err := trustedBundles(ctx, p.target, p.hub)
	if err != nil {
		return err
	}
	wanted := manifests.ServingCertificates(p.hub)
	if p.hub.AggregatedAPI() {
		further, err := aggregation.TrustedCABundles(ctx, p.target, p.hub)
		if err != nil {
			return err
		}
		trusted = append(trusted, further...)
	}
	rotator := i.certificateRotator(p.hub)
	expires := map[string]time.Time{}
	rotator.Kept = func(secret string, at time.Time) {
		if purpose := certificatePurpose(secret); expires[purpose].IsZero() || at.Before(expires[purpose]) {
			expires[purpose] = at
		}
	}
	bundle, due, err := rotator.RotateCertificates(ctx, wanted, trusted)
	if err != nil {
		return err
	}
	i.expiries.ReplaceOwner(p.hub.Name, expires)
	p.hub.CABundle = bundle
	p.DueBy(due)
	for _, name := range manifests.OptionalCertificates() {
		if slices.ContainsFunc(wanted, func(s certs.Leaf) bool { return s.Secret == name }) {
			continue
		}
		if err := i.deleteOwnSecret(ctx, p, name); err != nil {
			return err
		}
	}
	return nil
}

// certificatePurpose returns what a certificate is for, as the metric of their expiry has it.
func certificatePurpose(secret string) string {
	switch secret {
	case operatorv1.SignerSecret:
		return "hub-ca"
	case operatorv1.APIServerServingCertSecret:
		return "apiserver-serving"
	case operatorv1.PlacementDebugServingCertSecret:
		return "debug-serving"
	}
	return "webhook-serving"
}

// certificateRotator returns what keeps the certificates of the hub.
func (i *hubInstallation) certificateRotator(h manifests.Hub) *certs.Rotator {
	return &certs.Rotator{
		Client: i.Client, Reader: i.Reader, Clock: i.Clock, Owner: FieldOwner,
		Namespace: h.Namespace(), Labels: h.OwnerLabels(),
		SignerSecret: operatorv1.SignerSecret, BundleConfigMap: operatorv1.CABundleConfigMap,
	}
}

// trustedBundles returns what API servers verify the webhook servers with.
func trustedBundles(ctx context.Context, hub *install.Target, h manifests.Hub) ([][]byte, error) {
	var bundles [][]byte
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	if err := hub.Client.List(ctx, mutating, client.MatchingLabels(h.OwnerLabels())); err != nil {
		return nil, fmt.Errorf("listing the mutating webhook configurations: %w", err)
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			bundles = append(bundles, mutating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := hub.Client.List(ctx, validating, client.MatchingLabels(h.OwnerLabels())); err != nil {
		return nil, fmt.Errorf("listing the validating webhook configurations: %w", err)
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			bundles = append(bundles, validating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	return bundles, nil
}

// applyWebhookConfigs installs the webhook configurations once the servers run as the spec
// has it: before that nobody would answer.
func (i *hubInstallation) applyWebhookConfigs(ctx context.Context, p *clusterManagerPass) error {
	if rolling := status.DescribeRolling(p.rollouts); rolling != "" {
		return newWaitError(operatorv1.ClusterManagerReasonInstalling, rolling)
	}
	return p.applyObjects(ctx, p.target, manifests.WebhookConfigurations(p.hub))
}

// withdrawAPI leads no requests to an aggregated API server that there is not to
// be.
func (i *hubInstallation) withdrawAPI(ctx context.Context, p *clusterManagerPass) error {
	if p.hub.AggregatedAPI() {
		return nil
	}
	return aggregation.RemoveAPIServices(ctx, p.target, p.hub)
}

// installAggregatedAPI leads requests for the Cluster API to its server, once that runs,
// and looks whether they arrive. It is looked again soon, as nothing watches that.
func (i *hubInstallation) installAggregatedAPI(ctx context.Context, p *clusterManagerPass) error {
	if !p.hub.AggregatedAPI() {
		return nil
	}
	services, err := aggregation.InstallAPIServices(ctx, p.target, p.hub, p.ApplyNamed)
	if err != nil {
		return err
	}
	p.api.Services = services
	p.DueIn(apiRecheck)
	if condition, _ := status.APIServerCondition(*p.api, p.rollouts); condition.Status == metav1.ConditionTrue {
		p.DueIn(waitRetry)
	}
	return nil
}

// installDefinitions installs the kinds of the hub and waits until they are served.
func (i *hubInstallation) installDefinitions(ctx context.Context, p *clusterManagerPass) error {
	set := i.hubDefinitions(p.hub)
	if err := i.checkForeignPolicies(ctx, p); err != nil {
		return err
	}
	done, err := set.InstallDefinitions(ctx, p.target, statusInventory(p.Object))
	p.Records = append(p.Records, done.Records...)
	if err != nil {
		return err
	}
	if !done.Written && status.IsTrue(p.Object.Status.Conditions, operatorv1.ClusterManagerConditionApplied) {
		return nil
	}
	missing, err := set.UnservedDefinitions(ctx, p.target)
	if err == nil && len(missing) > 0 {
		err = newWaitError(operatorv1.ClusterManagerReasonInstalling, "CustomResourceDefinitions are not established yet: "+strings.Join(missing, ", "))
	}
	return err
}

// checkForeignPolicies returns an UnreachableError if the kinds of policies and bindings
// are somebody else's: two control planes cannot share them.
func (i *hubInstallation) checkForeignPolicies(ctx context.Context, p *clusterManagerPass) error {
	if !p.hub.PropagationEnabled() {
		return nil
	}
	foreign, err := definitions.ForeignDefinitions(ctx, p.target, i.Propagation, operatorv1.LabelCreatedByClusterManager)
	if err != nil || len(foreign) == 0 {
		return err
	}
	p.Object.Status.ObservedGeneration = p.Object.Generation
	return install.UnreachableError{After: foreignRecheck, Message: fmt.Sprintf(
		"these CustomResourceDefinitions belong to somebody else, such as an installation of Karmada: %s; "+
			"remove that with its definitions, or turn the feature gate %s off", strings.Join(foreign, ", "), features.Propagation)}
}
