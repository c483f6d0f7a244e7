// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/webhook/access"
)

const worksResource = "manifestworks"

// validator refuses ManifestWorks that break a rule.
type validator struct {
	access  access.Reviewer
	sizeMax int // bytes of all manifests
	// nilExecutor asks for the permission to work as the agent itself where a
	// work names no executor (feature gate NilExecutorValidating).
	nilExecutor bool
	// cleanUp says that ttlSecondsAfterFinished has an effect.
	cleanUp bool
}

// ValidateCreate implements admission.Validator.
func (v *validator) ValidateCreate(ctx context.Context, work *workv1.ManifestWork) (admission.Warnings, error) {
	return v.validate(ctx, work, checkName(work.Name))
}

// ValidateUpdate implements admission.Validator. It looks at works whose spec
// changes only, so that a work from before a rule can lose its finalizers, and
// whoever writes labels or finalizers needs no right to the executor.
func (v *validator) ValidateUpdate(ctx context.Context, old, work *workv1.ManifestWork) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(old.Spec, work.Spec) || orphansOnly(old, work) {
		return nil, nil
	}
	return v.validate(ctx, work, nil)
}

// orphansOnly tells whether all that changes is that the objects are to stay on
// the member. Nothing is executed for that, so it needs no right to the
// executor: the operator does it for a hub that is removed.
func orphansOnly(old, work *workv1.ManifestWork) bool {
	option := work.Spec.DeleteOption
	if option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyOrphan || option.SelectivelyOrphans != nil {
		return false
	}
	before := old.Spec.DeepCopy()
	if before.DeleteOption == nil {
		before.DeleteOption = &workv1.DeleteOption{}
	}
	before.DeleteOption.PropagationPolicy, before.DeleteOption.SelectivelyOrphans = option.PropagationPolicy, nil
	return equality.Semantic.DeepEqual(*before, work.Spec)
}

// ValidateDelete implements admission.Validator.
func (v *validator) ValidateDelete(context.Context, *workv1.ManifestWork) (admission.Warnings, error) {
	return nil, nil
}

// warn returns what the user should know about a work that is not wrong.
func (v *validator) warn(work *workv1.ManifestWork) admission.Warnings {
	if work.Spec.DeleteOption == nil || work.Spec.DeleteOption.TTLSecondsAfterFinished == nil {
		return nil
	}
	const field = "spec.deleteOption.ttlSecondsAfterFinished"
	switch seconds := *work.Spec.DeleteOption.TTLSecondsAfterFinished; {
	case !v.cleanUp:
		return admission.Warnings{field + " has no effect: this hub does not delete finished works. " +
			"An administrator can turn on the feature gate CleanUpCompletedManifestWork in spec.workConfiguration of the ClusterManager"}
	case seconds < 0:
		return admission.Warnings{fmt.Sprintf("%s is %d, which is less than 0: the work is never deleted because of it", field, seconds)}
	}
	return nil
}

func (v *validator) validate(ctx context.Context, work *workv1.ManifestWork, name error) (admission.Warnings, error) {
	user, executor := executorUser(work.Spec.Executor)
	warnings, configs := checkConfigs(work.Spec.ManifestConfigs)
	warnings = append(v.warn(work), warnings...)
	if err := errors.Join(name, checkManifests(work.Spec.Workload.Manifests, v.sizeMax), configs, executor); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if user == "" && v.nilExecutor {
		user = agentUser
	}
	if user == "" {
		return warnings, nil
	}
	return warnings, v.mayExecuteAs(ctx, work, user)
}

// mayExecuteAs asks whether the user of the request may have manifests applied
// with the rights of the other user, which is one of the member.
func (v *validator) mayExecuteAs(ctx context.Context, work *workv1.ManifestWork, executor string) error {
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	what := authorizationv1.ResourceAttributes{
		Group: workv1.GroupName, Resource: worksResource, Verb: workv1.ExecuteAsVerb, Namespace: request.Namespace, Name: executor,
	}
	may, reason, err := v.access.May(ctx, request.UserInfo, what)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if may {
		return nil
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	refusal := fmt.Errorf("applying the manifests as %q requires a permission: user %q may not %s%s",
		executor, request.UserInfo.Username, access.Describe(what), reason)
	if work.Spec.Executor == nil { // what is wrong is the work then, as for clients of OCM
		return apierrors.NewBadRequest(refusal.Error())
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: workv1.GroupName, Resource: worksResource}, work.Name, refusal)
}
