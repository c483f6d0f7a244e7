// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

const worksResource = "manifestworks"

// workValidator refuses ManifestWorks that break a rule.
type workValidator struct {
	specRules
	// cleanUp says that ttlSecondsAfterFinished has an effect.
	cleanUp bool
}

// ValidateCreate implements admission.Validator.
func (v *workValidator) ValidateCreate(ctx context.Context, work *workv1.ManifestWork) (admission.Warnings, error) {
	return v.validateWork(ctx, work, checkWorkName(work.Name))
}

// ValidateUpdate implements admission.Validator. It looks at works whose spec
// changes only, so that a work from before a rule can lose its finalizers, and
// whoever writes labels or finalizers needs no right to the executor.
func (v *workValidator) ValidateUpdate(ctx context.Context, old, work *workv1.ManifestWork) (admission.Warnings, error) {
	if err := checkGrowth(ctx, old, work); err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(old.Spec, work.Spec) || orphansOnly(&old.Spec, &work.Spec) {
		return nil, nil
	}
	return v.validateWork(ctx, work, nil)
}

// ValidateDelete implements admission.Validator.
func (v *workValidator) ValidateDelete(context.Context, *workv1.ManifestWork) (admission.Warnings, error) {
	return nil, nil
}

// orphansOnly reports whether all that changes is that the objects are to stay on
// the member. Nothing is executed for that, so it needs no right to the
// executor: the operator does it for a hub that is removed.
func orphansOnly(old, spec *workv1.ManifestWorkSpec) bool {
	option := spec.DeleteOption
	if option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyOrphan || option.SelectivelyOrphans != nil {
		return false
	}
	before := old.DeepCopy()
	if before.DeleteOption == nil {
		before.DeleteOption = &workv1.DeleteOption{}
	}
	before.DeleteOption.PropagationPolicy = option.PropagationPolicy
	before.DeleteOption.SelectivelyOrphans = nil
	return equality.Semantic.DeepEqual(before, spec)
}

func (v *workValidator) validateWork(ctx context.Context, work *workv1.ManifestWork, name error) (admission.Warnings, error) {
	warnings, user, err := v.checkSpec("spec", &work.Spec)
	if err := errors.Join(name, err); err != nil {
		return advice.WarningsFor(err), apierrors.NewBadRequest(err.Error())
	}
	warnings = append(v.ttlWarnings(work), warnings...)
	if user == "" {
		return warnings, nil
	}
	return warnings, v.checkExecutor(ctx, user, executionSubject{
		resource: worksResource, namespace: work.Namespace, name: work.Name, executor: work.Spec.Executor,
	})
}

// checkGrowth refuses what an agent adds to a work: by works that count for a namespace of the hub an agent would use up
// what that namespace may have, and in the end what all may, and by others the room that etcd has. Agents write works to
// change finalizers, and may leave out of the spec what they do not know.
func checkGrowth(ctx context.Context, old, work *workv1.ManifestWork) error {
	owner := allowance.OwnerOf(work)
	counted := owner != (allowance.WorkOwner{})
	takesRoom := counted && (owner != allowance.OwnerOf(old) || allowance.WorkBytes(work) > allowance.WorkBytes(old))
	if !takesRoom && !allowance.SpecGrows(old, work) {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	if !slices.Contains(request.UserInfo.Groups, clusterv1.GroupManagedClusters) {
		return nil
	}
	refusal := errors.New("the agent of a cluster may not make a ManifestWork larger")
	if counted {
		refusal = fmt.Errorf("%w that counts for namespace %q of the hub", refusal, owner.Namespace)
	}
	return apierrors.NewForbidden(workv1.GroupVersion.WithResource(worksResource).GroupResource(), work.Name, refusal)
}

// ttlWarnings returns what the user should know about a work that is not wrong.
func (v *workValidator) ttlWarnings(work *workv1.ManifestWork) admission.Warnings {
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

// specRules are what the spec of a work has to keep, wherever it is written.
type specRules struct {
	access  access.Reviewer
	sizeMax int // bytes of all manifests
	// nilExecutor asks for the permission to work as the agent itself where a
	// work names no executor (feature gate NilExecutorValidating).
	nilExecutor bool
}

// checkSpec returns what is wrong with the spec of a work at the path and, if
// nothing is, the user on the member whom its author has to be allowed to act
// as, "" for nobody.
func (r *specRules) checkSpec(path string, spec *workv1.ManifestWorkSpec) (admission.Warnings, string, error) {
	user, executor := executorUser(path, spec.Executor)
	warnings, configs := checkConfigs(path, spec.ManifestConfigs)
	orphaned, orphaning := checkOrphaning(path, spec)
	if err := errors.Join(checkManifests(path, spec.Workload.Manifests, r.sizeMax), configs, orphaning, executor); err != nil {
		return nil, "", err
	}
	warnings = append(warnings, orphaned...)
	if user == "" && r.nilExecutor {
		user = agentUser
	}
	return warnings, user, nil
}

// executionSubject is an object whose author has to be allowed to act as its executor.
type executionSubject struct {
	resource string
	// namespace is that of the cluster, "" if it may be any.
	namespace string
	name      string
	executor  *workv1.ManifestWorkExecutor
}

// checkExecutor asks whether the user of the request may have manifests applied
// with the rights of the other user, which is one of the member.
func (r *specRules) checkExecutor(ctx context.Context, executor string, of executionSubject) error {
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	what := authorizationv1.ResourceAttributes{
		Group: workv1.GroupName, Resource: worksResource, Verb: workv1.ExecuteAsVerb, Namespace: of.namespace, Name: executor,
	}
	may, reason, err := r.access.IsAllowed(ctx, request.UserInfo, what)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if may {
		return nil
	}
	where := ""
	if of.namespace == "" {
		where = " in all namespaces"
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	refusal := fmt.Errorf("applying the manifests as %q requires a permission: user %q may not %s%s%s",
		executor, request.UserInfo.Username, access.DescribePermission(what), where, reason)
	if of.executor == nil { // what is wrong is the object then, as for clients of OCM
		return apierrors.NewBadRequest(refusal.Error())
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: workv1.GroupName, Resource: of.resource}, of.name, refusal)
}
