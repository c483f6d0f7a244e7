// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// FieldOwner owns what is installed in a member for the push agent.
const FieldOwner = "capstan-join"

// rolesFirst is how many of RenderObjects are roles of the whole member.
const rolesFirst = 3

// RequiredRights returns what a user needs in the member to install and remove this.
func (p PushInstallation) RequiredRights() []authorizationv1.ResourceAttributes {
	var rights []authorizationv1.ResourceAttributes
	add := func(group, resource, namespace string) {
		for _, verb := range []string{"get", "create", "patch", "delete"} {
			rights = append(rights, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Namespace: namespace, Verb: verb})
		}
	}
	add("", "namespaces", "")
	add(apiextensionsv1.GroupName, "customresourcedefinitions", "")
	add(rbacv1.GroupName, "clusterroles", "")
	add(rbacv1.GroupName, "clusterrolebindings", "")
	add(rbacv1.GroupName, "roles", p.Namespace)
	add(rbacv1.GroupName, "rolebindings", p.Namespace)
	add("", "serviceaccounts", p.Namespace)
	rights = append(rights, authorizationv1.ResourceAttributes{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Verb: "list"})
	return append(rights, authorizationv1.ResourceAttributes{
		Resource: "serviceaccounts", Subresource: "token", Namespace: p.Namespace, Name: p.Account().Name, Verb: "create",
	})
}

// DryRunInstall finds out whether InstallInMember would work, as far as that can be said
// without changing anything.
func (p PushInstallation) DryRunInstall(ctx context.Context, c client.Client) error {
	if err := p.checkUnclaimed(ctx, c); err != nil {
		return err
	}
	if err := p.checkRoleExists(ctx, c); err != nil {
		return err
	}
	objects, err := p.RenderObjects()
	if err != nil {
		return err
	}
	// Whoever makes a role needs all the rights in it, or the right to escalate.
	_, err = render.NewApplier(client.NewDryRunClient(c), c, FieldOwner).Apply(ctx, objects[:rolesFirst]...)
	return explainGrantError(err)
}

// checkRoleExists returns an error if the member has not got the role that the user has chosen.
func (p PushInstallation) checkRoleExists(ctx context.Context, c client.Client) error {
	if p.Role == "" {
		return nil
	}
	role := &metav1.PartialObjectMetadata{}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	err := c.Get(ctx, client.ObjectKey{Name: p.Role}, role)
	if apierrors.IsNotFound(err) {
		return exit.Next(fmt.Errorf("the member has no ClusterRole %q", p.Role), "Name one that it has: kubectl get clusterroles")
	}
	if err != nil {
		return fmt.Errorf("read the ClusterRole %q of the member: %w", p.Role, err)
	}
	return nil
}

// explainGrantError explains an error of making roles.
func explainGrantError(err error) error {
	if apierrors.IsForbidden(err) {
		return exit.Next(err, "Use a kubeconfig of somebody who has these rights in the member, as an administrator of the cluster (role cluster-admin) has.")
	}
	return err
}

// InstallInMember applies everything that the push agent needs in the member, and takes away the role that
// the user chose before, if another one or none is chosen now. It can be repeated.
func (p PushInstallation) InstallInMember(ctx context.Context, c client.Client) error {
	if err := p.checkUnclaimed(ctx, c); err != nil {
		return err
	}
	applier := render.NewApplier(c, c, FieldOwner)
	namespace, err := p.readNamespace(ctx, c)
	if err != nil {
		return err
	}
	if namespace == nil {
		if _, err := applier.Apply(ctx, p.NamespaceObject()); err != nil {
			return err
		}
	}
	definitions, err := AgentDefinitions(ctx, c)
	if err != nil {
		return err
	}
	objects, err := p.RenderObjects()
	if err != nil {
		return err
	}
	if _, err = applier.Apply(ctx, append(definitions, objects...)...); err != nil {
		return explainGrantError(err)
	}
	former, err := p.FormerRoles(ctx, c)
	if err != nil {
		return err
	}
	return RemoveRemains(ctx, c, former)
}

// FormerRoles returns the bindings of the roles that the user chose before, and not now. They have our
// labels and our name, so another binding of the same account, which somebody else made, stays.
func (p PushInstallation) FormerRoles(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	found, err := listMetadata(ctx, c, rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), client.MatchingLabels(p.Labels()))
	return slices.DeleteFunc(found, func(binding metav1.PartialObjectMetadata) bool {
		role, is := strings.CutPrefix(binding.Name, p.objectName(roleSuffix))
		return !is || role == p.Role
	}), err
}

// IsNamespaceEnding reports whether the namespace is being deleted, as after the cluster has
// left; nothing can be installed before it is gone.
func (p PushInstallation) IsNamespaceEnding(ctx context.Context, c client.Client) (bool, error) {
	namespace, err := p.readNamespace(ctx, c)
	return namespace != nil && !namespace.DeletionTimestamp.IsZero(), err
}

// readNamespace returns the namespace, or nil if there is none.
func (p PushInstallation) readNamespace(ctx context.Context, c client.Client) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: p.Namespace}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace %q of the member: %w", p.Namespace, err)
	}
	return namespace, nil
}

// checkUnclaimed returns an error if the account is that of another hub, or nobody
// knows whose.
func (p PushInstallation) checkUnclaimed(ctx context.Context, c client.Client) error {
	account := &corev1.ServiceAccount{}
	name := p.Account().Name
	err := c.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, account)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the ServiceAccount %q of the member: %w", p.Namespace+"/"+name, err)
	case account.Labels[fleetv1alpha1.LabelPushHub] == p.Hub:
		return nil
	}
	return exit.Next(fmt.Errorf("the ServiceAccount %q of the member is that of another hub", p.Namespace+"/"+name),
		"Choose another namespace for this hub with --cluster-namespace, or remove the cluster from the other hub first.")
}

// AgentDefinitions returns those of the kinds that the agent needs in the member. One
// that the operator of a Klusterlet looks after is left to it.
func AgentDefinitions(ctx context.Context, c client.Client) ([]render.Object, error) {
	crds, err := config.SpokeCRDs()
	if err != nil {
		return nil, err
	}
	var objects []render.Object
	for _, crd := range crds {
		live, err := readDefinition(ctx, c, crd.Name)
		if err != nil {
			return nil, err
		}
		if live != nil && live.Annotations[operatorv1.AnnotationCRDVersion] != "" {
			continue
		}
		crd.Labels = maps.Clone(crd.Labels)
		metav1.SetMetaDataLabel(&crd.ObjectMeta, fleetv1alpha1.LabelPushCluster, "")
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, fmt.Errorf("encode the definition %q: %w", crd.Name, err)
		}
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		object := &unstructured.Unstructured{Object: content}
		object.SetGroupVersionKind(definitionKind())
		objects = append(objects, client.ApplyConfigurationFromUnstructured(object))
	}
	return objects, nil
}

// readDefinition returns the metadata of a definition in the member, or nil.
func readDefinition(ctx context.Context, c client.Client, name string) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(definitionKind())
	err := c.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition %q of the member: %w", name, err)
	}
	return live, nil
}
