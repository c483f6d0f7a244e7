// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// secrets copies the Secrets of Clusters.
type secrets struct{ core kubernetes.Interface }

// secretCopy is a Secret that is copied into the namespace of a cluster.
type secretCopy struct {
	// field is the one of spec that refers to it.
	field string
	from  v1alpha1.LocalSecretReference
	// to is the name of the copy, which has these keys.
	to   string
	keys []string
}

// copies returns the Secrets that a Cluster begins to refer to and that are in
// other namespaces.
func copies(before, after *v1alpha1.Cluster) []secretCopy {
	var all []secretCopy
	add := func(was, is *v1alpha1.LocalSecretReference, c secretCopy) {
		if is != nil && is.Namespace != after.Name && (was == nil || *was != *is) {
			c.from = *is
			all = append(all, c)
		}
	}
	add(before.Spec.SecretRef, after.Spec.SecretRef, secretCopy{
		field: "secretRef", to: fleetv1alpha1.DefaultSecretName, keys: []string{v1alpha1.SecretKeyToken, v1alpha1.SecretKeyCABundle},
	})
	add(before.Spec.ImpersonatorSecretRef, after.Spec.ImpersonatorSecretRef, secretCopy{
		field: "impersonatorSecretRef", to: fleetv1alpha1.ImpersonatorSecretName, keys: []string{v1alpha1.SecretKeyToken},
	})
	return all
}

// copy copies the Secrets that a Cluster begins to refer to and that are
// not in the namespace of the cluster, where its connection uses them. Whether
// the user may read them was reviewed before.
func (s *secrets) copy(ctx context.Context, before, after *v1alpha1.Cluster, dryRun []string) error {
	for _, ref := range copies(before, after) {
		data, err := s.read(ctx, after.Name, ref)
		if err != nil {
			return err
		}
		if len(dryRun) > 0 {
			continue
		}
		if err := s.write(ctx, after.Name, ref.to, data); err != nil {
			return err
		}
	}
	return nil
}

// read returns those of the keys that a Secret has. It needs a token.
func (s *secrets) read(ctx context.Context, cluster string, c secretCopy) (map[string][]byte, error) {
	path, name := field.NewPath("spec", c.field), c.from.Namespace+"/"+c.from.Name
	secret, err := s.core.CoreV1().Secrets(c.from.Namespace).Get(ctx, c.from.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewInvalid(kind(), cluster, field.ErrorList{field.NotFound(path, name)})
	case apierrors.IsForbidden(err):
		return nil, forbidden(cluster, fmt.Errorf("%s: the account of the Cluster API may not read Secret %q: grant it get by a Role in namespace %q, "+
			"or put the Secret into the namespace of the cluster: %w", path, name, c.from.Namespace, err))
	case err != nil:
		return nil, problem(err, cluster)
	}
	data := map[string][]byte{}
	for _, key := range c.keys {
		if value, ok := secret.Data[key]; ok {
			data[key] = value
		}
	}
	if len(data[v1alpha1.SecretKeyToken]) == 0 {
		return nil, apierrors.NewInvalid(kind(), cluster, field.ErrorList{field.Invalid(path, name, "the Secret has no key token")})
	}
	return data, nil
}

// write writes a copy into the namespace of the cluster, which may be
// about to be made.
func (s *secrets) write(ctx context.Context, cluster, name string, data map[string][]byte) error {
	labels := map[string]string{clusterv1.LabelClusterName: cluster}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: labels}}
	_, err := s.core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		err = s.checkNamespace(ctx, cluster)
	}
	if err != nil {
		return problem(err, cluster)
	}
	secret := corev1apply.Secret(name, cluster).WithLabels(labels).WithType(corev1.SecretTypeOpaque).WithData(data)
	_, err = s.core.CoreV1().Secrets(cluster).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return problem(err, cluster)
	}
	return nil
}

// checkNamespace refuses to write into a namespace that is not the cluster's.
func (s *secrets) checkNamespace(ctx context.Context, cluster string) error {
	namespace, err := s.core.CoreV1().Namespaces().Get(ctx, cluster, metav1.GetOptions{})
	if err != nil {
		return problem(err, cluster)
	}
	if namespace.Labels[clusterv1.LabelClusterName] != cluster {
		return forbidden(cluster, fmt.Errorf("the namespace %q exists but does not belong to this cluster; give the cluster another name or, "+
			"if the namespace is intended for it, label it: kubectl label namespace %s %s=%s", cluster, cluster, clusterv1.LabelClusterName, cluster))
	}
	return nil
}
