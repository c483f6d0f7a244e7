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

// validator refuses ManagedClusters that break a rule.
type validator struct {
	access access.Reviewer
	// namespace returns the namespace, or nil if there is none.
	namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// admit tells whether a cluster may wait for acceptance, and counts it unless it is
	// only tried. See waitingClusters.
	admit func(ctx context.Context, mark, cluster string, try bool) (bool, error)
	// maxUnaccepted is how many clusters that wait for acceptance one user may have
	// who may not accept them; 0 is no limit.
	maxUnaccepted int
	defaultSet    bool
}

// ValidateCreate implements admission.Validator.
func (v *validator) ValidateCreate(ctx context.Context, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return v.validate(ctx, nil, cluster)
}

// ValidateUpdate implements admission.Validator.
func (v *validator) ValidateUpdate(ctx context.Context, old, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return v.validate(ctx, old, cluster)
}

// ValidateDelete implements admission.Validator.
func (v *validator) ValidateDelete(context.Context, *clusterv1.ManagedCluster) (admission.Warnings, error) {
	return nil, nil
}

// validate checks what the change does. What it leaves as it is, it does not
// check: a cluster from before a rule can still be changed and deleted. Only
// acceptance checks the name again, as it is then that the agent gets rights.
func (v *validator) validate(ctx context.Context, old, cluster *clusterv1.ManagedCluster) (admission.Warnings, error) {
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	var oldConfigs []clusterv1.ClientConfig
	if old != nil {
		oldConfigs = old.Spec.ManagedClusterClientConfigs
	}
	accepts := becomesAccepted(old, cluster)
	var problems []error
	if old == nil || accepts {
		problems = append(problems, checkName(cluster.Name))
	}
	problems = append(problems, checkClientConfigs(oldConfigs, cluster.Spec.ManagedClusterClientConfigs))
	if err := errors.Join(problems...); err != nil {
		return advice.Warnings(err), apierrors.NewBadRequest(err.Error())
	}
	if err := v.permit(ctx, old, cluster); err != nil {
		return nil, err
	}
	if old == nil || accepts {
		return v.checkNamespace(ctx, cluster.Name, accepts)
	}
	return nil, nil
}

// permit refuses what the user of the request may not do.
func (v *validator) permit(ctx context.Context, old, cluster *clusterv1.ManagedCluster) error {
	user, err := userOf(ctx)
	if err != nil {
		return err
	}
	if err := checkToken(user, cluster.Name); err != nil {
		return err
	}
	switch {
	case becomesAccepted(old, cluster) || remembersJoin(old, cluster):
		err = v.mayAccept(ctx, cluster.Name)
	case old == nil:
		err = v.mayAwait(ctx, user.Username, cluster.Name)
	}
	if err != nil {
		return err
	}
	for _, set := range setsChanged(old, cluster, v.defaultSet) {
		if err := v.mayJoin(ctx, cluster.Name, set); err != nil {
			return err
		}
	}
	return nil
}

func (v *validator) checkNamespace(ctx context.Context, cluster string, accepts bool) (admission.Warnings, error) {
	namespace, err := v.namespace(ctx, cluster)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	warning, err := checkNamespace(cluster, namespace)
	if accepts {
		err = errors.Join(err, checkNotTerminating(cluster, namespace))
	}
	if err != nil {
		return nil, forbidden(clustersResource, cluster, err)
	}
	if warning != "" {
		return admission.Warnings{warning}, nil
	}
	return nil, nil
}

// checkToken refuses what the token of the user is not for.
func checkToken(user authenticationv1.UserInfo, cluster string) error {
	bounds := boundtoken.Of(user.Username, user.Groups)
	if bounds.Allow(cluster) {
		return nil
	}
	return forbidden(clustersResource, cluster, fmt.Errorf(
		"the token of user %q is bound to other cluster names: %s; register the cluster under one of these, or with another token",
		user.Username, bounds))
}

func acceptance(cluster string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Group: clusterv1.RegisterGroup, Resource: clustersResource, Subresource: "accept", Verb: "update", Name: cluster,
	}
}

func (v *validator) mayAccept(ctx context.Context, cluster string) error {
	return require(ctx, v.access, acceptance(cluster), func(missing error) error {
		return forbidden(clustersResource, cluster, fmt.Errorf(
			"setting spec.hubAcceptsClient to true, or an annotation that records the acceptance, requires a permission: %w", missing))
	})
}

func (v *validator) mayJoin(ctx context.Context, cluster, set string) error {
	what := authorizationv1.ResourceAttributes{
		Group: clusterv1.GroupName, Resource: setsResource, Subresource: "join", Verb: "create", Name: set,
	}
	return require(ctx, v.access, what, func(missing error) error {
		return forbidden(clustersResource, cluster, fmt.Errorf(
			"adding the cluster to the set %q or removing it (label %s) requires a permission: %w", set, clusterv1.LabelClusterSet, missing))
	})
}

// bindingValidator refuses ManagedClusterSetBindings that break a rule.
type bindingValidator struct {
	access access.Reviewer
}

// ValidateCreate implements admission.Validator.
func (v *bindingValidator) ValidateCreate(ctx context.Context, binding *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	if err := checkBinding(binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	what := authorizationv1.ResourceAttributes{
		Group: clusterv1.GroupName, Resource: setsResource, Subresource: "bind", Verb: "create", Name: binding.Spec.ClusterSet,
	}
	return nil, require(ctx, v.access, what, func(missing error) error {
		return forbidden(bindingsResource, binding.Name, fmt.Errorf("binding the set %q requires a permission: %w", binding.Spec.ClusterSet, missing))
	})
}

// ValidateUpdate implements admission.Validator. Binding was allowed when the
// binding was made, so that changing its labels needs no permission.
func (v *bindingValidator) ValidateUpdate(_ context.Context, _, binding *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	if err := checkBinding(binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return nil, nil
}

// ValidateDelete implements admission.Validator.
func (v *bindingValidator) ValidateDelete(context.Context, *clusterv1beta2.ManagedClusterSetBinding) (admission.Warnings, error) {
	return nil, nil
}

// require returns nil if the user of the request may do what is asked, and
// what refuse makes of the missing permission if not.
func require(
	ctx context.Context, reviewer access.Reviewer, what authorizationv1.ResourceAttributes, refuse func(missing error) error,
) error {
	user, err := userOf(ctx)
	if err != nil {
		return err
	}
	may, reason, err := reviewer.May(ctx, user, what)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if may {
		return nil
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return refuse(fmt.Errorf("user %q may not %s%s", user.Username, access.Describe(what), reason))
}

// userOf returns the user of the request.
func userOf(ctx context.Context) (authenticationv1.UserInfo, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return authenticationv1.UserInfo{}, apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	return request.UserInfo, nil
}

func forbidden(resource, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: clusterv1.GroupName, Resource: resource}, name, err)
}
