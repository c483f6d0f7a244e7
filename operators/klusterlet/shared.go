// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// removeShared removes what all Klusterlets have in common, together with the
// last of them. The definitions stay: deleting one deletes the users' objects.
func (r *agentRemoval) removeShared(ctx context.Context, p *klusterletPass) error {
	alone, err := isLastKlusterlet(ctx, p.member, p.Object.Name)
	if err != nil || !alone {
		return err
	}
	set, err := r.definitionSet()
	if err != nil {
		return err
	}
	errs := []error{r.removePullSecrets(ctx, p), set.ReleaseVersion(ctx, p.member)}
	for _, target := range []struct {
		kind schema.GroupVersionKind
		name string
	}{
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), manifests.AggregateRole},
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), manifests.ExecutionRole},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), operatorv1.DefaultAddOnNamespace},
	} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(target.kind)
		object.Name = target.name
		if err := p.member.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s %q: %w", target.kind.Kind, target.name, err))
		}
	}
	return errors.Join(errs...)
}

// isLastKlusterlet reports whether no other Klusterlet has installed its agents' roles on the
// cluster: one of the cluster itself, or one whose hosted agents work there.
func isLastKlusterlet(ctx context.Context, on *install.Target, klusterlet string) (bool, error) {
	roles := &metav1.PartialObjectMetadataList{}
	roles.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleList"))
	if err := on.Live.List(ctx, roles, client.HasLabels{operatorv1.LabelCreatedByKlusterlet}); err != nil {
		return false, fmt.Errorf("listing the roles of agents: %w", err)
	}
	for i := range roles.Items {
		name := roles.Items[i].Labels[operatorv1.LabelCreatedByKlusterlet]
		// A hosted agent's role to answer who reads its metrics says nothing of the
		// member: it is where the agent runs.
		if name != "" && name != klusterlet && !strings.HasPrefix(roles.Items[i].Name, manifests.ManagementRolePrefix) {
			return false, nil
		}
	}
	return true, nil
}

// removePullSecrets deletes the copies of the pull secret in the namespaces of
// add-ons, which stay if their users made them.
func (r *agentRemoval) removePullSecrets(ctx context.Context, p *klusterletPass) error {
	if r.Settings.PullSecret == "" {
		return nil
	}
	addons := &corev1.NamespaceList{}
	if err := p.member.Client.List(ctx, addons, client.MatchingLabels{operatorv1.LabelAddOnNamespace: "true"}); err != nil {
		return fmt.Errorf("listing the namespaces of add-ons: %w", err)
	}
	var errs []error
	for i := range addons.Items {
		if p.member == r.management && addons.Items[i].Name == r.Settings.Namespace {
			continue // the source of the copies
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: addons.Items[i].Name, Name: r.Settings.PullSecret}}
		if err := p.member.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting secret %q: %w", client.ObjectKeyFromObject(secret), err))
		}
	}
	return errors.Join(errs...)
}
