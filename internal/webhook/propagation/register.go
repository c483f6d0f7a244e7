// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package propagation contains the admission webhooks of the kinds by which
// objects of the hub are sent to clusters: policies, overrides, bindings and
// interpreters of the groups policy.karmada.io, work.karmada.io and
// config.karmada.io.
//
// They fill in what policies leave open and give policies and bindings the ID
// that they keep for life, and they refuse what the rules in the definitions
// cannot tell: mistakes in selectors, pointers, labels, images and scripts.
package propagation

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/webhook/patch"
	"github.com/capstan-io/capstan/internal/webhook/size"
)

// The resources that have webhooks.
const (
	propagationPolicies        = "propagationpolicies"
	clusterPropagationPolicies = "clusterpropagationpolicies"
	overridePolicies           = "overridepolicies"
	clusterOverridePolicies    = "clusteroverridepolicies"
	resourceBindings           = "resourcebindings"
	clusterResourceBindings    = "clusterresourcebindings"
	customizations             = "resourceinterpretercustomizations"
	interpreterWebhooks        = "resourceinterpreterwebhookconfigurations"
)

// The paths of the webhooks, which their configurations name, are that of what a
// webhook does with a resource.
const (
	mutatePath   = "/mutate-propagation-"
	validatePath = "/validate-propagation-"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// WebhookOptions say how the webhooks work.
type WebhookOptions struct {
	// Clients ask the hub's API server.
	Clients kubernetes.Interface
	// Authorize lets policies send only what their authors may read on the hub
	// (feature gate PropagationAuthorization).
	Authorize bool
	// Customizations returns all ResourceInterpreterCustomizations of the hub.
	Customizations func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error)
}

// WebhookHandlers returns the webhooks by their paths.
func WebhookHandlers(options WebhookOptions) (map[string]http.Handler, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("adding the kinds of propagation to the scheme: %w", err)
		}
	}
	newID := func() string { return string(uuid.NewUUID()) }
	webhooks := mutatingWebhooks(newID)
	authorize := func(context.Context, string, string, string, *policyv1alpha1.PropagationSpec) error { return nil }
	if options.Authorize {
		author := &policyAuthorizer{
			access:    access.NewAccessReviewer(options.Clients.AuthorizationV1().SubjectAccessReviews()),
			resources: discovery.ToDiscoveryInterfaceWithContext(options.Clients.Discovery()).ServerResourcesForGroupVersionWithContext,
		}
		authorize = author.authorizePolicy
	}
	webhooks[validatePath+propagationPolicies] = admission.WithValidator(scheme, &objectValidator[*policyv1alpha1.PropagationPolicy]{
		kind: policyv1alpha1.GroupVersion.WithKind("PropagationPolicy").GroupKind(), label: policyv1alpha1.LabelPropagationPolicyID,
		content: func(p *policyv1alpha1.PropagationPolicy) any { return sentContent(p) },
		check:   func(p *policyv1alpha1.PropagationPolicy) (admission.Warnings, fieldMistakes) { return checkPolicy(p) },
		authorize: func(ctx context.Context, p *policyv1alpha1.PropagationPolicy) error {
			return authorize(ctx, propagationPolicies, p.Name, p.Namespace, &p.Spec)
		},
	})
	webhooks[validatePath+clusterPropagationPolicies] = admission.WithValidator(scheme, &objectValidator[*policyv1alpha1.ClusterPropagationPolicy]{
		kind: policyv1alpha1.GroupVersion.WithKind("ClusterPropagationPolicy").GroupKind(), label: policyv1alpha1.LabelClusterPropagationPolicyID,
		content: func(p *policyv1alpha1.ClusterPropagationPolicy) any { return sentContent(p) },
		check: func(p *policyv1alpha1.ClusterPropagationPolicy) (admission.Warnings, fieldMistakes) {
			return checkPolicy(p)
		},
		authorize: func(ctx context.Context, p *policyv1alpha1.ClusterPropagationPolicy) error {
			return authorize(ctx, clusterPropagationPolicies, p.Name, "", &p.Spec)
		},
	})
	webhooks[validatePath+overridePolicies] = admission.WithValidator(scheme, &objectValidator[*policyv1alpha1.OverridePolicy]{
		kind:    policyv1alpha1.GroupVersion.WithKind("OverridePolicy").GroupKind(),
		content: func(p *policyv1alpha1.OverridePolicy) any { return p.Spec },
		check: func(p *policyv1alpha1.OverridePolicy) (admission.Warnings, fieldMistakes) {
			return checkOverride(p.Namespace, &p.Spec)
		},
	})
	webhooks[validatePath+clusterOverridePolicies] = admission.WithValidator(scheme, &objectValidator[*policyv1alpha1.ClusterOverridePolicy]{
		kind:    policyv1alpha1.GroupVersion.WithKind("ClusterOverridePolicy").GroupKind(),
		content: func(p *policyv1alpha1.ClusterOverridePolicy) any { return p.Spec },
		check: func(p *policyv1alpha1.ClusterOverridePolicy) (admission.Warnings, fieldMistakes) {
			return checkOverride("", &p.Spec)
		},
	})
	webhooks[validatePath+resourceBindings] = admission.WithValidator(scheme, &objectValidator[*workv1alpha2.ResourceBinding]{
		kind: workv1alpha2.GroupVersion.WithKind("ResourceBinding").GroupKind(), label: workv1alpha2.LabelResourceBindingID,
		content: func(b *workv1alpha2.ResourceBinding) any { return bindingContent(b, &b.Spec) },
		check: func(b *workv1alpha2.ResourceBinding) (admission.Warnings, fieldMistakes) {
			return nil, checkBinding(b, &b.Spec)
		},
	})
	webhooks[validatePath+clusterResourceBindings] = admission.WithValidator(scheme, &objectValidator[*workv1alpha2.ClusterResourceBinding]{
		kind: workv1alpha2.GroupVersion.WithKind("ClusterResourceBinding").GroupKind(), label: workv1alpha2.LabelClusterResourceBindingID,
		content: func(b *workv1alpha2.ClusterResourceBinding) any { return bindingContent(b, &b.Spec) },
		check: func(b *workv1alpha2.ClusterResourceBinding) (admission.Warnings, fieldMistakes) {
			return nil, checkBinding(b, &b.Spec)
		},
	})
	webhooks[validatePath+customizations] = customizationWebhook(scheme, customizationValidator(options.Customizations))
	webhooks[validatePath+interpreterWebhooks] = admission.WithValidator(scheme, interpreterWebhookValidator())
	return size.LimitObjectSize(size.Stored, webhooks), nil
}

// mutatingWebhooks are the webhooks that change objects.
func mutatingWebhooks(newID func() string) map[string]*admission.Webhook {
	return map[string]*admission.Webhook{
		mutatePath + propagationPolicies: {Handler: &objectMutator[*policyv1alpha1.PropagationPolicy]{
			label: policyv1alpha1.LabelPropagationPolicyID, finalizer: policyv1alpha1.FinalizerPropagationPolicy, newID: newID,
			fresh: func() *policyv1alpha1.PropagationPolicy { return &policyv1alpha1.PropagationPolicy{} },
			complete: func(p *policyv1alpha1.PropagationPolicy, changes *patch.JSONPatch) {
				completePropagation(&p.Spec, p.Namespace, changes)
			},
		}},
		mutatePath + clusterPropagationPolicies: {Handler: &objectMutator[*policyv1alpha1.ClusterPropagationPolicy]{
			label: policyv1alpha1.LabelClusterPropagationPolicyID, finalizer: policyv1alpha1.FinalizerClusterPropagationPolicy, newID: newID,
			fresh: func() *policyv1alpha1.ClusterPropagationPolicy { return &policyv1alpha1.ClusterPropagationPolicy{} },
			complete: func(p *policyv1alpha1.ClusterPropagationPolicy, changes *patch.JSONPatch) {
				completePropagation(&p.Spec, "", changes)
			},
		}},
		mutatePath + overridePolicies: {Handler: &objectMutator[*policyv1alpha1.OverridePolicy]{
			fresh: func() *policyv1alpha1.OverridePolicy { return &policyv1alpha1.OverridePolicy{} },
			complete: func(p *policyv1alpha1.OverridePolicy, changes *patch.JSONPatch) {
				completeSelectors(p.Spec.ResourceSelectors, p.Namespace, changes)
			},
		}},
		mutatePath + resourceBindings: {Handler: &objectMutator[*workv1alpha2.ResourceBinding]{
			label: workv1alpha2.LabelResourceBindingID, keepID: true, newID: newID,
			fresh: func() *workv1alpha2.ResourceBinding { return &workv1alpha2.ResourceBinding{} },
		}},
		mutatePath + clusterResourceBindings: {Handler: &objectMutator[*workv1alpha2.ClusterResourceBinding]{
			label: workv1alpha2.LabelClusterResourceBindingID, keepID: true, newID: newID,
			fresh: func() *workv1alpha2.ClusterResourceBinding { return &workv1alpha2.ClusterResourceBinding{} },
		}},
	}
}
