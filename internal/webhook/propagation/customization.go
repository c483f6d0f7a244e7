// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// +kubebuilder:rbac:groups=config.karmada.io,resources=resourceinterpretercustomizations,verbs=list

// customizationValidator refuses customizations with scripts that are none, and
// those that say what another one says already.
func customizationValidator(
	all func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error),
) *objectValidator[*configv1alpha1.ResourceInterpreterCustomization] {
	kind := configv1alpha1.GroupVersion.WithKind("ResourceInterpreterCustomization").GroupKind()
	return &objectValidator[*configv1alpha1.ResourceInterpreterCustomization]{
		kind:    kind,
		content: func(c *configv1alpha1.ResourceInterpreterCustomization) any { return c.Spec },
		check: func(c *configv1alpha1.ResourceInterpreterCustomization) (admission.Warnings, fieldMistakes) {
			return nil, customized.CheckScripts(c)
		},
		authorize: func(ctx context.Context, c *configv1alpha1.ResourceInterpreterCustomization) error {
			ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
			defer cancel()
			others, err := all(ctx)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			if wrong := customized.ScriptConflicts(c, others); len(wrong) > 0 {
				return apierrors.NewInvalid(kind, c.Name, wrong)
			}
			return nil
		},
	}
}

// customizationWebhook returns the webhook of the validator, before which wrong keys are refused.
func customizationWebhook(scheme *runtime.Scheme, v *objectValidator[*configv1alpha1.ResourceInterpreterCustomization]) *admission.Webhook {
	webhook := admission.WithValidator(scheme, v)
	webhook.Handler = knownKeys{Handler: webhook.Handler, refusal: v.invalidError}
	return webhook
}

// knownKeys refuses customizations with keys that are no operations. The definition keeps such
// keys for that, and the type has no field for them: so they are read from the object as it came.
type knownKeys struct {
	admission.Handler

	refusal func(*configv1alpha1.ResourceInterpreterCustomization, fieldMistakes) error
}

// Handle implements admission.Handler.
func (k knownKeys) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation == admissionv1.Delete {
		return k.Handler.Handle(ctx, request)
	}
	object := &unstructured.Unstructured{}
	old := &unstructured.Unstructured{}
	if err := json.Unmarshal(request.Object.Raw, &object.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q: %w", request.Kind.Kind, request.Name, err))
	}
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, &old.Object); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q as it was: %w", request.Kind.Kind, request.Name, err))
		}
	}
	if object.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(old.Object["spec"], object.Object["spec"]) {
		return k.Handler.Handle(ctx, request)
	}
	written, _, _ := unstructured.NestedMap(object.Object, "spec", "customizations") // the definition has checked that it is an object
	named := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: request.Name}}
	if status := apierrors.APIStatus(nil); errors.As(k.refusal(named, customized.CheckKeys(slices.Collect(maps.Keys(written)))), &status) {
		result := status.Status()
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &result}}
	}
	return k.Handler.Handle(ctx, request)
}

// NewCustomizationReader reads all customizations of a hub.
func NewCustomizationReader(hub rest.Interface) func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
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
