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

// SecretCopier copies the Secrets of Clusters.
type SecretCopier struct {
	Core kubernetes.Interface
	// View is what Clusters are made of: errors are about these.
	View stored.ProjectedView
	// FieldManager is that of this program on the hub.
	FieldManager string
}

// CopyReference is one of a Cluster to a Secret in another namespace than its own.
type CopyReference struct {
	// Field is the one of spec that has it.
	Field string
	From  v1alpha1.LocalSecretReference
	// To is the name of the copy in the namespace of the cluster.
	To   string
	keys []string
}

// SourceName names the Secret in messages.
func (r CopyReference) SourceName() string { return r.From.Namespace + "/" + r.From.Name }

// BegunReferences returns the references to Secrets in other namespaces that a Cluster
// begins to have.
func BegunReferences(before, after *v1alpha1.Cluster) []CopyReference {
	var all []CopyReference
	add := func(was, is *v1alpha1.LocalSecretReference, r CopyReference) {
		if is != nil && is.Namespace != after.Name && (was == nil || *was != *is) {
			r.From = *is
			all = append(all, r)
		}
	}
	add(before.Spec.SecretRef, after.Spec.SecretRef, CopyReference{
		Field: "secretRef", To: fleetv1alpha1.DefaultSecretName, keys: []string{v1alpha1.SecretKeyToken, v1alpha1.SecretKeyCABundle},
	})
	add(before.Spec.ImpersonatorSecretRef, after.Spec.ImpersonatorSecretRef, CopyReference{
		Field: "impersonatorSecretRef", To: fleetv1alpha1.ImpersonatorSecretName, keys: []string{v1alpha1.SecretKeyToken},
	})
	return all
}

// ReadSource returns what of a Secret is copied, and whether there is such a Secret. It
// needs a token.
func (c SecretCopier) ReadSource(ctx context.Context, cluster string, r CopyReference) (data map[string][]byte, found bool, err error) {
	secret, err := c.Core.CoreV1().Secrets(r.From.Namespace).Get(ctx, r.From.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, false, c.forbiddenError(cluster, fmt.Errorf("%s: the account of the Cluster API may not read Secret %q: grant it get by a Role in namespace %q, "+
			"or put the Secret into the namespace of the cluster: %w", r.fieldPath(), r.SourceName(), r.From.Namespace, err))
	case err != nil:
		return nil, false, c.View.TranslateError(err, cluster)
	}
	data = map[string][]byte{}
	for _, key := range r.keys {
		if value, ok := secret.Data[key]; ok {
			data[key] = value
		}
	}
	if len(data[v1alpha1.SecretKeyToken]) == 0 {
		return nil, true, c.invalidError(cluster, field.Invalid(r.fieldPath(), r.SourceName(), "the Secret has no key token"))
	}
	return data, true, nil
}

// MissingError refuses a reference to a Secret that does not exist.
func (c SecretCopier) MissingError(cluster string, r CopyReference) error {
	return c.invalidError(cluster, field.NotFound(r.fieldPath(), r.SourceName()))
}

// WriteCopy writes a copy into the namespace of the cluster, which may be about to be
// made.
func (c SecretCopier) WriteCopy(ctx context.Context, cluster string, r CopyReference, data map[string][]byte) error {
	labels := map[string]string{clusterv1.LabelClusterName: cluster}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: labels}}
	_, err := c.Core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: c.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		err = c.checkNamespace(ctx, cluster)
	}
	if err != nil {
		return c.View.TranslateError(err, cluster)
	}
	secret := corev1apply.Secret(r.To, cluster).WithLabels(labels).WithType(corev1.SecretTypeOpaque).WithData(data)
	_, err = c.Core.CoreV1().Secrets(cluster).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: c.FieldManager, Force: true})
	if err != nil {
		return c.View.TranslateError(err, cluster)
	}
	return nil
}

// checkNamespace refuses to write into a namespace that is not the cluster's.
func (c SecretCopier) checkNamespace(ctx context.Context, cluster string) error {
	namespace, err := c.Core.CoreV1().Namespaces().Get(ctx, cluster, metav1.GetOptions{})
	if err != nil {
		return c.View.TranslateError(err, cluster)
	}
	if namespace.Labels[clusterv1.LabelClusterName] != cluster {
		return c.forbiddenError(cluster, fmt.Errorf("the namespace %q exists but does not belong to this cluster; give the cluster another name or, "+
			"if the namespace is intended for it, label it: kubectl label namespace %s %s=%s", cluster, cluster, clusterv1.LabelClusterName, cluster))
	}
	return nil
}

func (r CopyReference) fieldPath() *field.Path { return field.NewPath("spec", r.Field) }

func (c SecretCopier) forbiddenError(cluster string, err error) error {
	return apierrors.NewForbidden(c.View.GroupResource(), cluster, err)
}

func (c SecretCopier) invalidError(cluster string, problem *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: c.View.Shown.Group, Kind: c.View.Shown.Kind}, cluster, field.ErrorList{problem})
}
