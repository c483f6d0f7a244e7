// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package secretcopy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

// Copier copies the Secrets of Clusters.
type Copier struct {
	Core kubernetes.Interface
	// View is what Clusters are made of: errors are about these.
	View stored.View
	// FieldManager is that of this program on the hub.
	FieldManager string
}

// Reference is one of a Cluster to a Secret in another namespace than its own.
type Reference struct {
	// Field is the one of spec that has it.
	Field string
	From  v1alpha1.LocalSecretReference
	// To is the name of the copy in the namespace of the cluster.
	To   string
	keys []string
}

// Source names the Secret in messages.
func (r Reference) Source() string { return r.From.Namespace + "/" + r.From.Name }

// References returns the references to Secrets in other namespaces that a Cluster
// begins to have.
func References(before, after *v1alpha1.Cluster) []Reference {
	var all []Reference
	add := func(was, is *v1alpha1.LocalSecretReference, r Reference) {
		if is != nil && is.Namespace != after.Name && (was == nil || *was != *is) {
			r.From = *is
			all = append(all, r)
		}
	}
	add(before.Spec.SecretRef, after.Spec.SecretRef, Reference{
		Field: "secretRef", To: fleetv1alpha1.DefaultSecretName, keys: []string{v1alpha1.SecretKeyToken, v1alpha1.SecretKeyCABundle},
	})
	add(before.Spec.ImpersonatorSecretRef, after.Spec.ImpersonatorSecretRef, Reference{
		Field: "impersonatorSecretRef", To: fleetv1alpha1.ImpersonatorSecretName, keys: []string{v1alpha1.SecretKeyToken},
	})
	return all
}

// Read returns what of a Secret is copied, and whether there is such a Secret. It
// needs a token.
func (c Copier) Read(ctx context.Context, cluster string, r Reference) (data map[string][]byte, found bool, err error) {
	secret, err := c.Core.CoreV1().Secrets(r.From.Namespace).Get(ctx, r.From.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, false, c.forbidden(cluster, fmt.Errorf("%s: the account of the Cluster API may not read Secret %q: grant it get by a Role in namespace %q, "+
			"or put the Secret into the namespace of the cluster: %w", r.path(), r.Source(), r.From.Namespace, err))
	case err != nil:
		return nil, false, c.View.Problem(err, cluster)
	}
	data = map[string][]byte{}
	for _, key := range r.keys {
		if value, ok := secret.Data[key]; ok {
			data[key] = value
		}
	}
	if len(data[v1alpha1.SecretKeyToken]) == 0 {
		return nil, true, c.invalid(cluster, field.Invalid(r.path(), r.Source(), "the Secret has no key token"))
	}
	return data, true, nil
}

// Missing refuses a reference to a Secret that does not exist.
func (c Copier) Missing(cluster string, r Reference) error {
	return c.invalid(cluster, field.NotFound(r.path(), r.Source()))
}

// Write writes a copy into the namespace of the cluster, which may be about to be
// made.
func (c Copier) Write(ctx context.Context, cluster string, r Reference, data map[string][]byte) error {
	labels := map[string]string{clusterv1.LabelClusterName: cluster}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: labels}}
	_, err := c.Core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: c.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		err = c.checkNamespace(ctx, cluster)
	}
	if err != nil {
		return c.View.Problem(err, cluster)
	}
	secret := corev1apply.Secret(r.To, cluster).WithLabels(labels).WithType(corev1.SecretTypeOpaque).WithData(data)
	_, err = c.Core.CoreV1().Secrets(cluster).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: c.FieldManager, Force: true})
	if err != nil {
		return c.View.Problem(err, cluster)
	}
	return nil
}

// checkNamespace refuses to write into a namespace that is not the cluster's.
func (c Copier) checkNamespace(ctx context.Context, cluster string) error {
	namespace, err := c.Core.CoreV1().Namespaces().Get(ctx, cluster, metav1.GetOptions{})
	if err != nil {
		return c.View.Problem(err, cluster)
	}
	if namespace.Labels[clusterv1.LabelClusterName] != cluster {
		return c.forbidden(cluster, fmt.Errorf("the namespace %q exists but does not belong to this cluster; give the cluster another name or, "+
			"if the namespace is intended for it, label it: kubectl label namespace %s %s=%s", cluster, cluster, clusterv1.LabelClusterName, cluster))
	}
	return nil
}

func (r Reference) path() *field.Path { return field.NewPath("spec", r.Field) }

func (c Copier) forbidden(cluster string, err error) error {
	return apierrors.NewForbidden(c.View.Resource(), cluster, err)
}

func (c Copier) invalid(cluster string, problem *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: c.View.Shown.Group, Kind: c.View.Shown.Kind}, cluster, field.ErrorList{problem})
}
