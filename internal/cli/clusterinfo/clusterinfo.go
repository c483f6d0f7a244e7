// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterinfo publishes what members need to trust a hub: its address
// and CA, signed with each bootstrap token, in ConfigMap
// kube-public/cluster-info, as kubeadm does. It neither creates nor deletes
// tokens.
package clusterinfo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/discovery"
)

const (
	// readers is the Role, and its binding, by which everybody may read
	// cluster-info. The name is that of kubeadm, which would make the same.
	readers = "kubeadm:bootstrap-signer-clusterinfo"
	// anonymous is who asks without a credential.
	anonymous = "system:anonymous"
)

// Publish makes sure that the hub tells everybody how to trust it, signed with
// the token. What is published already stays: the hub may be known by another
// address than that in use here.
//
// The signer in the controller manager of the hub signs, too, if it runs, which
// it does only where it was asked for. It computes the same, so it does not
// matter who is first.
func Publish(ctx context.Context, c client.Client, config *rest.Config, token string) error {
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo}}
	err := c.Get(ctx, client.ObjectKeyFromObject(info), info)
	isNew := apierrors.IsNotFound(err)
	switch {
	case isNew:
		if err = fillClusterInfo(info, config); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read ConfigMap kube-public/cluster-info: %w", err)
	}
	if _, err := discovery.ParsePublishedCluster(info.Data[api.KubeConfigKey]); err != nil {
		return fmt.Errorf("ConfigMap kube-public/cluster-info: %w", err)
	}
	before := info.DeepCopy()
	id, secret, _ := strings.Cut(token, ".")
	if info.Data[api.JWSSignatureKeyPrefix+id], err = jws.ComputeDetachedSignature(info.Data[api.KubeConfigKey], id, secret); err != nil {
		return fmt.Errorf("sign with the token: %w", err)
	}
	if isNew {
		err = createMissing(ctx, c, info, everybodyReads(), bindEverybody())
	} else {
		err = c.Patch(ctx, info, client.MergeFrom(before))
	}
	if err != nil {
		return fmt.Errorf("publish how to trust the hub: %w", err)
	}
	return nil
}

// capstanLabels tell what is made here from what kubeadm has made, so that it can be
// removed with the hub.
func capstanLabels() map[string]string {
	return map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}
}

// fillClusterInfo puts the address and CA of the hub into the ConfigMap.
func fillClusterInfo(info *corev1.ConfigMap, config *rest.Config) error {
	ca, err := TrustedCABundle(config)
	if err != nil {
		return err
	}
	if len(ca) == 0 {
		return errors.New("the kubeconfig in use has no CA that could be published")
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[""] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: ca}
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	info.Labels = capstanLabels()
	info.Data = map[string]string{api.KubeConfigKey: string(text)}
	return nil
}

// createMissing creates the objects, but those that are there.
func createMissing(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s in namespace %s: %w", object.GetName(), object.GetNamespace(), err)
		}
	}
	return nil
}

// TrustedCABundle returns the CA that a configuration trusts, PEM encoded; nothing if it is
// one of those that the system trusts.
func TrustedCABundle(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	ca, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA of the hub: %w", err)
	}
	return ca, nil
}

func everybodyReads() *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: readers, Labels: capstanLabels()},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{api.ConfigMapClusterInfo}, Verbs: []string{"get"},
		}},
	}
}

func bindEverybody() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: readers, Labels: capstanLabels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: readers},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: anonymous}},
	}
}

// Unpublish takes the signature of a token that is gone out of what the hub
// publishes. Where the hub's own signer runs, it does the same.
func Unpublish(ctx context.Context, c client.Client, id string) error {
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo}}
	patch := fmt.Appendf(nil, `{"data":{%q:null}}`, api.JWSSignatureKeyPrefix+id)
	err := c.Patch(ctx, info, client.RawPatch("application/merge-patch+json", patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the signature of token %q from ConfigMap kube-public/cluster-info: %w", id, err)
	}
	return nil
}
