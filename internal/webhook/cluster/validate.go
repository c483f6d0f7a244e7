// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

// Resources of the webhooks, for answers that name what is refused.
const (
	clustersResource = "managedclusters"
	setsResource     = "managedclustersets"
	bindingsResource = "managedclustersetbindings"
)

// clusterValidator refuses ManagedClusters that break a rule.
type clusterValidator struct {
	access access.Reviewer
	// namespace returns the namespace, or nil if there is none.
	namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// admit reports whether a cluster may wait for acceptance, and counts it unless it is
	// only tried. See waitingClusters.
	admit func(ctx context.Context, mark, cluster string, try bool) (bool, error)
	// maxUnaccepted is how many clusters that wait for acceptance one user may have
	// who may not accept them; 0 is no limit.
	maxUnaccepted int
	defaultSet    bool
}

// ValidateCreate implements admission.Validator.
func (v *clusterValidator) ValidateCreate(ctx context.Context, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return v.validateCluster(ctx, nil, cluster)
}

// ValidateUpdate implements admission.Validator.
func (v *clusterValidator) ValidateUpdate(ctx context.Context, old, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return v.validateCluster(ctx, old, cluster)
}

// ValidateDelete implements admission.Validator.
func (v *clusterValidator) ValidateDelete(context.Context, *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return nil, nil
}

// validateCluster checks what the change does. What it leaves as it is, it does not
// check: a cluster from before a rule can still be changed and deleted. Only
// acceptance checks the name again, as it is then that the agent gets rights.
func (v *clusterValidator) validateCluster(ctx context.Context, old, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	var oldConfigs []clusterv1.ClientConfig
	if old != nil {
		oldConfigs = old.Spec.ManagedClusterClientConfigs
	}
	accepts := becomesAccepted(old, cluster)
	var problems []error
	if old == nil || accepts {
		problems = append(problems, checkClusterName(cluster.Name))
	}
	problems = append(problems, checkClientConfigs(oldConfigs, cluster.Spec.ManagedClusterClientConfigs))
	if err := errors.Join(problems...); err != nil {
		return advice.WarningsFor(err), apierrors.NewBadRequest(err.Error())
	}
	if err := v.checkPermissions(ctx, old, cluster); err != nil {
		return nil, err
	}
	if old == nil || accepts {
		return v.checkNamespace(ctx, cluster.Name, accepts)
	}
	return nil, nil
}

// checkPermissions refuses what the user of the request may not do.
func (v *clusterValidator) checkPermissions(ctx context.Context, old, cluster *clusterv1.ManagedCluster) error {
	user, err := requestUser(ctx)
	if err != nil {
		return err
	}
	if err := checkToken(user, cluster.Name); err != nil {
		return err
	}
	switch {
	case becomesAccepted(old, cluster) || remembersJoin(old, cluster):
		err = v.checkAcceptance(ctx, cluster.Name)
	case old == nil:
		err = v.checkWaitingClusters(ctx, user.Username, cluster.Name)
	}
	if err != nil {
		return err
	}
	for _, set := range setsChanged(old, cluster, v.defaultSet) {
		if err := v.checkJoin(ctx, cluster.Name, set); err != nil {
			return err
		}
	}
	return nil
}

func (v *clusterValidator) checkNamespace(ctx context.Context, cluster string, accepts bool) (admission.Warnings, error) {
	namespace, err := v.namespace(ctx, cluster)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	warning, err := checkNamespace(cluster, namespace)
	if accepts {
		err = errors.Join(err, checkNotTerminating(cluster, namespace))
	}
	if err != nil {
		return nil, forbiddenError(clustersResource, cluster, err)
	}
	if warning != "" {
		return admission.Warnings{warning}, nil
	}
	return nil, nil
}

// checkToken refuses what the token of the user is not for.
func checkToken(user authenticationv1.UserInfo, cluster string) error {
	bounds := boundtoken.BoundsOf(user.Username, user.Groups)
	if bounds.AllowsCluster(cluster) {
		return nil
	}
	return forbiddenError(clustersResource, cluster, fmt.Errorf(
		"the token of user %q is bound to other cluster names: %s; register the cluster under one of these, or with another token",
		user.Username, bounds))
}

func acceptAttributes(cluster string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Group: clusterv1.RegisterGroup, Resource: clustersResource, Subresource: "accept", Verb: "update", Name: cluster,
	}
}

func (v *clusterValidator) checkAcceptance(ctx context.Context, cluster string) error {
	return requirePermission(ctx, v.access, acceptAttributes(cluster), func(missing error) error {
		return forbiddenError(clustersResource, cluster, fmt.Errorf(
			"setting spec.hubAcceptsClient to true, or an annotation that records the acceptance, requires a permission: %w", missing))
	})
}

func (v *clusterValidator) checkJoin(ctx context.Context, cluster, set string) error {
	what := authorizationv1.ResourceAttributes{
		Group: clusterv1.GroupName, Resource: setsResource, Subresource: "join", Verb: "create", Name: set,
	}
	return requirePermission(ctx, v.access, what, func(missing error) error {
		return forbiddenError(clustersResource, cluster, fmt.Errorf(
			"adding the cluster to the set %q or removing it (label %s) requires a permission: %w", set, clusterv1.LabelClusterSet, missing))
	})
}

// clusterSetBindingValidator refuses ManagedClusterSetBindings that break a rule.
type clusterSetBindingValidator struct {
	access access.Reviewer
}

// ValidateCreate implements admission.Validator.
func (v *clusterSetBindingValidator) ValidateCreate(ctx context.Context, binding *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	if err := checkClusterSetBinding(binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	what := authorizationv1.ResourceAttributes{
		Group: clusterv1.GroupName, Resource: setsResource, Subresource: "bind", Verb: "create", Name: binding.Spec.ClusterSet,
	}
	return nil, requirePermission(ctx, v.access, what, func(missing error) error {
		return forbiddenError(bindingsResource, binding.Name, fmt.Errorf("binding the set %q requires a permission: %w", binding.Spec.ClusterSet, missing))
	})
}

// ValidateUpdate implements admission.Validator. Binding was allowed when the
// binding was made, so that changing its labels needs no permission.
func (v *clusterSetBindingValidator) ValidateUpdate(_ context.Context, _, binding *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	if err := checkClusterSetBinding(binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return nil, nil
}

// ValidateDelete implements admission.Validator.
func (v *clusterSetBindingValidator) ValidateDelete(context.Context, *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	return nil, nil
}

// requirePermission returns nil if the user of the request may do what is asked, and
// what refuse makes of the missing permission if not.
func requirePermission(
	ctx context.Context, reviewer access.Reviewer, what authorizationv1.ResourceAttributes, refuse func(missing error) error,
) error {
	user, err := requestUser(ctx)
	if err != nil {
		return err
	}
	may, reason, err := reviewer.IsAllowed(ctx, user, what)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if may {
		return nil
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return refuse(fmt.Errorf("user %q may not %s%s", user.Username, access.DescribePermission(what), reason))
}

// requestUser returns the user of the request.
func requestUser(ctx context.Context) (authenticationv1.UserInfo, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return authenticationv1.UserInfo{}, apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	return request.UserInfo, nil
}

func forbiddenError(resource, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: clusterv1.GroupName, Resource: resource}, name, err)
}
