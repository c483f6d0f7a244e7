// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// clusterSecretsRole lets the aggregated API server read the Secrets that Clusters refer to,
// of which it makes copies.
const clusterSecretsRole = "capstan:cluster-secrets"

// clusterInfoRole lets everybody read where the API server is.
const clusterInfoRole = "capstan:cluster-info"

// HubObjects returns the first objects in the API server itself: who its
// administrators are, where clusters that join find it, and the namespace that
// Karmada's clients write Secrets to without looking whether it exists. The hub's
// aggregated API server may read these, and those of no other namespace. The bundle is
// what clusters verify the API server with.
func HubObjects(p Plane, bundle []byte) ([]render.Object, error) {
	info, err := kubeconfigOf("", clientcmdapi.Cluster{Server: p.Endpoint.URL(), CertificateAuthorityData: bundle}, clientcmdapi.AuthInfo{})
	if err != nil {
		return nil, err
	}
	hubNamespace, _ := p.KubeconfigSecret() // the ClusterManager's, which has that name on the hub, too
	secrets := render.ResourceMeta{Name: clusterSecretsRole, Namespace: clusterv1alpha1.SecretsNamespace}
	public := render.ResourceMeta{Name: clusterInfoRole, Namespace: metav1.NamespacePublic}
	return []render.Object{
		render.Namespace(render.ResourceMeta{Name: clusterv1alpha1.SecretsNamespace}),
		render.Role(secrets, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}),
		render.RoleBinding(secrets, clusterSecretsRole, render.AccountSubject(hubNamespace, fleetv1alpha1.APIServerServiceAccount)),
		render.ClusterRoleBinding(render.ResourceMeta{Name: fleetv1alpha1.ControlPlaneAdminsGroup}, "cluster-admin",
			render.GroupSubject(fleetv1alpha1.ControlPlaneAdminsGroup)),
		render.ConfigMap(public.WithName(bootstrapapi.ConfigMapClusterInfo), map[string]string{bootstrapapi.KubeConfigKey: string(info)}),
		render.Role(public, []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{bootstrapapi.ConfigMapClusterInfo}, Verbs: []string{"get"},
		}}),
		render.RoleBinding(public, clusterInfoRole, rbacv1.Subject{
			Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:anonymous",
		}, render.GroupSubject("system:authenticated")),
	}, nil
}

// KubeconfigSecret returns the Secret with the kubeconfig of the certificate, for
// what runs on the host.
func KubeconfigSecret(p Plane, bundle []byte, admin *certs.CertificatePair) (render.Object, error) {
	kubeconfig, err := kubeconfigOf(p.Name, clientcmdapi.Cluster{Server: p.InternalURL(), CertificateAuthorityData: bundle},
		clientcmdapi.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM})
	if err != nil {
		return nil, err
	}
	namespace, name := p.KubeconfigSecret()
	labels := p.Labels()
	labels[fleetv1alpha1.LabelControlPlaneNamespace] = p.Namespace
	return render.SecretOfType(render.ResourceMeta{Name: name, Namespace: namespace, Labels: labels}, corev1.SecretTypeOpaque,
		map[string][]byte{kubeconfigKey: kubeconfig}), nil
}

// kubeconfigOf returns a kubeconfig with one cluster and, unless the name is
// empty, one user.
func kubeconfigOf(name string, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &cluster
	if name != "" {
		config.AuthInfos[name] = &user
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		config.CurrentContext = name
	}
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return encoded, nil
}
