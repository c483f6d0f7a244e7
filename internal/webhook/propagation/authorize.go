// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// policyAuthorizer asks whether the author of a policy may read what it sends to
// clusters: whoever reads a cluster could read it there.
type policyAuthorizer struct {
	access    access.Reviewer
	resources resourceLister
}

// resourceLister returns what the hub serves of a group and version.
type resourceLister func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)

// namesMax is of how many objects of a resource in a namespace a policy may name each without its author being asked for
// the right to list them: each name is one question to the API server.
const namesMax = 16

// authorizePolicy returns what keeps the user of the request from having the policy. The
// namespace is that of the policy, empty for one that is for all.
func (a *policyAuthorizer) authorizePolicy(ctx context.Context, resource, name, namespace string, spec *policyv1alpha1.PropagationSpec) error {
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("finding the user of the request: %w", err))
	}
	questions, err := a.requiredReads(ctx, namespace, spec)
	if err == nil {
		err = a.checkReadAccess(ctx, request.UserInfo, questions)
	}
	if failed := apierrors.APIStatus(nil); err == nil || errors.As(err, &failed) {
		return err
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: policyv1alpha1.GroupName, Resource: resource}, name, err)
}

// checkReadAccess returns the first permission that the user does not have.
func (a *policyAuthorizer) checkReadAccess(ctx context.Context, user authenticationv1.UserInfo, questions []authorizationv1.ResourceAttributes) error {
	for _, what := range questions {
		may, reason, err := a.access.IsAllowed(ctx, user, what)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if may {
			continue
		}
		if reason != "" {
			reason = " (" + reason + ")"
		}
		return fmt.Errorf("user %q may not %s%s, and a policy sends to clusters only what its author may read on the hub: "+
			"get that permission, or leave it out of the policy", user.Username, describePermission(what), reason)
	}
	return nil
}

// requiredReads are what the author of a policy has to be allowed: to get the object
// that a selector names, and to list what another one selects, or many name.
func (a *policyAuthorizer) requiredReads(ctx context.Context, namespace string, spec *policyv1alpha1.PropagationSpec) ([]authorizationv1.ResourceAttributes, error) {
	resources := a.resources.askOnce()
	var all []authorizationv1.ResourceAttributes
	add := func(what authorizationv1.ResourceAttributes) {
		if !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	for i, s := range spec.ResourceSelectors {
		group, resource, err := resources.findResource(ctx, s.APIVersion, s.Kind)
		if err != nil {
			return nil, fmt.Errorf("spec.resourceSelectors[%d]: %w", i, err)
		}
		where := s.Namespace
		if namespace != "" {
			where = namespace
		}
		what := authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: resource.Name}
		if s.Name != "" {
			what.Verb = "get"
			what.Name = s.Name
		}
		if resource.Namespaced {
			what.Namespace = where
		}
		add(what)
		if spec.PropagateDeps && resource.Namespaced {
			for _, dependency := range []string{"configmaps", "secrets"} {
				add(authorizationv1.ResourceAttributes{Verb: "list", Group: corev1.GroupName, Resource: dependency, Namespace: where})
			}
		}
	}
	return listManyNames(all), nil
}

// listManyNames returns questions with one to list a resource in the place of those about more than namesMax of its names.
func listManyNames(questions []authorizationv1.ResourceAttributes) (fewer []authorizationv1.ResourceAttributes) {
	list := func(what authorizationv1.ResourceAttributes) authorizationv1.ResourceAttributes {
		what.Verb = "list"
		what.Name = ""
		return what
	}
	names := map[authorizationv1.ResourceAttributes]int{}
	for _, what := range questions {
		if what.Name != "" {
			names[list(what)]++
		}
	}
	for _, what := range questions {
		if names[list(what)] > namesMax {
			what = list(what)
		}
		if !slices.Contains(fewer, what) {
			fewer = append(fewer, what)
		}
	}
	return fewer
}

// askOnce returns what asks once for each group and version, for one request.
func (l resourceLister) askOnce() resourceLister {
	answers := map[string]*metav1.APIResourceList{}
	return func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
		if known, is := answers[groupVersion]; is {
			return known, nil
		}
		list, err := l(ctx, groupVersion)
		if err == nil {
			answers[groupVersion] = list
		}
		return list, err
	}
}

// findResource returns the resource of a kind. For one that is not served nobody can be
// asked.
func (l resourceLister) findResource(ctx context.Context, apiVersion, kind string) (group string, resource metav1.APIResource, err error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "", resource, err
	}
	list, err := l(ctx, apiVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", resource, apierrors.NewInternalError(fmt.Errorf("asking what the hub serves of %s: %w", apiVersion, err))
	}
	if list != nil {
		for _, r := range list.APIResources {
			if r.Kind == kind && !strings.Contains(r.Name, "/") {
				return version.Group, r, nil
			}
		}
	}
	return "", resource, fmt.Errorf("the hub does not serve kind %s of %s, so it is unknown whether you may read it: create its definition first", kind, apiVersion)
}

// describePermission puts a permission into words, as an administrator has to grant it.
func describePermission(what authorizationv1.ResourceAttributes) string {
	text := what.Verb + " " + what.Resource
	if what.Group != "" {
		text += "." + what.Group
	}
	if what.Name != "" {
		text += fmt.Sprintf(" %q", what.Name)
	}
	if what.Namespace != "" {
		return text + fmt.Sprintf(" in namespace %q", what.Namespace)
	}
	return text + " in all namespaces"
}
