// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
)

func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// ListRemains returns what there is in the member for the push agent, in the order
// in which to remove it: rights first, and the account after its namespace, which
// is known by it. The namespace belongs to it if nobody else has an account there,
// and a definition if it has no objects and no Klusterlet needs it. What is being
// deleted already does not count.
func (p PushInstallation) ListRemains(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	var rights []metav1.PartialObjectMetadata
	for _, kind := range []schema.GroupVersionKind{
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), rbacv1.SchemeGroupVersion.WithKind("Role"),
	} {
		found, err := listMetadata(ctx, c, kind, client.MatchingLabels(p.Labels()))
		if err != nil {
			return nil, err
		}
		rights = append(rights, found...)
	}
	accounts, err := listMetadata(ctx, c, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), client.MatchingLabels(p.Labels()))
	if err != nil {
		return nil, err
	}
	namespaces, err := p.unusedNamespaces(ctx, c, accounts)
	if err != nil {
		return nil, err
	}
	definitions, err := spareDefinitions(ctx, c, accounts)
	all := slices.Concat(rights, namespaces, accounts, definitions)
	return slices.DeleteFunc(all, func(object metav1.PartialObjectMetadata) bool { return !object.DeletionTimestamp.IsZero() }), err
}

// unusedNamespaces returns the namespaces made for push agents in which the account of the cluster is, and
// none but those that are to be removed. The label alone proves nothing: who may label a
// namespace may not for that reason delete it.
func (p PushInstallation) unusedNamespaces(ctx context.Context, c client.Client, removed []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	namespaces, err := listMetadata(ctx, c, corev1.SchemeGroupVersion.WithKind("Namespace"), client.HasLabels{fleetv1alpha1.LabelPushCluster})
	if err != nil {
		return nil, err
	}
	left, err := otherAccounts(ctx, c, removed)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(namespaces, func(namespace metav1.PartialObjectMetadata) bool {
		isThere := func(a metav1.PartialObjectMetadata) bool { return a.Namespace == namespace.Name }
		isOurs := func(a metav1.PartialObjectMetadata) bool { return isThere(a) && a.Name == p.Account().Name }
		return !slices.ContainsFunc(removed, isOurs) || slices.ContainsFunc(left, isThere)
	}), nil
}

// otherAccounts returns the accounts of push agents that are not to be removed.
func otherAccounts(ctx context.Context, c client.Client, removed []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	uids := map[types.UID]bool{}
	for i := range removed {
		uids[removed[i].UID] = true
	}
	accounts, err := listMetadata(ctx, c, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), client.HasLabels{fleetv1alpha1.LabelPushCluster})
	return slices.DeleteFunc(accounts, func(a metav1.PartialObjectMetadata) bool { return uids[a.UID] }), err
}

// spareDefinitions returns the definitions made for push agents that nobody needs.
func spareDefinitions(ctx context.Context, c client.Client, removed []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	accounts, err := otherAccounts(ctx, c, removed)
	if err != nil || len(accounts) > 0 {
		return nil, err
	}
	crds, err := config.SpokeCRDs()
	if err != nil {
		return nil, err
	}
	var definitions []metav1.PartialObjectMetadata
	for _, crd := range crds {
		live, err := readDefinition(ctx, c, crd.Name)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		_, made := live.Labels[fleetv1alpha1.LabelPushCluster]
		if !made || live.Annotations[operatorv1.AnnotationCRDVersion] != "" {
			continue
		}
		objects, err := listMetadata(ctx, c, schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind}, client.Limit(1))
		if err != nil {
			return nil, err
		}
		if len(objects) == 0 {
			definitions = append(definitions, *live)
		}
	}
	return definitions, nil
}

// listMetadata returns the metadata of objects, with their kind. A kind that is not
// known has none.
func listMetadata(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.List(ctx, found, options...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the objects of kind %s in the member: %w", kind.Kind, err)
	}
	for i := range found.Items {
		found.Items[i].SetGroupVersionKind(kind)
	}
	return found.Items, nil
}

// RemoveRemains deletes what remains, in this order. It does not wait for a namespace
// to be empty.
func RemoveRemains(ctx context.Context, c client.Client, remains []metav1.PartialObjectMetadata) error {
	for i := range remains {
		object := &remains[i]
		err := c.Delete(ctx, object, client.Preconditions{UID: &object.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the %s %q of the member: %w", object.Kind, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}
