// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret/webhook"
)

// interpreterWebhookValidator refuses webhooks whose certificate nobody could
// verify.
func interpreterWebhookValidator() *objectValidator[*configv1alpha1.ResourceInterpreterWebhookConfiguration] {
	return &objectValidator[*configv1alpha1.ResourceInterpreterWebhookConfiguration]{
		kind:    configv1alpha1.GroupVersion.WithKind("ResourceInterpreterWebhookConfiguration").GroupKind(),
		content: func(c *configv1alpha1.ResourceInterpreterWebhookConfiguration) any { return c.Webhooks },
		check: func(c *configv1alpha1.ResourceInterpreterWebhookConfiguration) (admission.Warnings, fieldMistakes) {
			return nil, webhook.CheckConfiguration(c)
		},
	}
}
