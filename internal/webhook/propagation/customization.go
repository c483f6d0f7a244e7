// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/access"
	"github.com/capstan-io/capstan/internal/interpret/customized"
)

// +kubebuilder:rbac:groups=config.karmada.io,resources=resourceinterpretercustomizations,verbs=list

// customizationValidator refuses customizations with scripts that are none, and
// those that say what another one says already.
func customizationValidator(
	all func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error),
) *validator[*configv1alpha1.ResourceInterpreterCustomization] {
	kind := configv1alpha1.GroupVersion.WithKind("ResourceInterpreterCustomization").GroupKind()
	return &validator[*configv1alpha1.ResourceInterpreterCustomization]{
		kind:    kind,
		content: func(c *configv1alpha1.ResourceInterpreterCustomization) any { return c.Spec },
		check: func(c *configv1alpha1.ResourceInterpreterCustomization) (admission.Warnings, mistakes) {
			return nil, customized.Check(c)
		},
		authorize: func(ctx context.Context, c *configv1alpha1.ResourceInterpreterCustomization) error {
			ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
			defer cancel()
			others, err := all(ctx)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			if wrong := customized.Conflicts(c, others); len(wrong) > 0 {
				return apierrors.NewInvalid(kind, c.Name, wrong)
			}
			return nil
		},
	}
}

// Customizations reads all customizations of a hub.
func Customizations(hub rest.Interface) func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
	return func(ctx context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
		list := &configv1alpha1.ResourceInterpreterCustomizationList{}
		raw, err := hub.Get().AbsPath("/apis", configv1alpha1.GroupName, configv1alpha1.GroupVersion.Version, customizations).DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(raw, list)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the ResourceInterpreterCustomizations of the hub: %w", err)
		}
		return list.Items, nil
	}
}
