// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	operatorNamespace = "open-cluster-management"
	// bootstrapIdentity names the kubeconfig that agents register with.
	bootstrapIdentity = "bootstrap"
	// tokenLifetime is longer than any benchmark.
	tokenLifetime = 24 * time.Hour
)

// install puts into the hub what the operator would: namespaces, identities
// with their roles, and the webhooks. Everybody works with the rights they
// have on a hub of users, and authenticates as there.
func (f *Fleet) install(ctx context.Context) error {
	host, certificate, err := f.servingCertificate()
	if err != nil {
		return err
	}
	h := manifests.Hub{Name: "cluster-manager", OperatorNamespace: operatorNamespace, CABundle: certificate, Replicas: 1}
	h.Registration, _ = features.ResolveGates(features.HubRegistration, nil)
	h.Work, _ = features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): f.options.ReplicaSets})
	for _, name := range []string{operatorNamespace, h.Namespace(), metav1.NamespacePublic} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := f.ensureNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	objects, err := manifests.ComponentAccess(h, config.Rules)
	if err != nil {
		return err
	}
	objects = append(objects, manifests.BootstrapAccess(h)...)
	objects = append(objects, WithoutServices(manifests.WebhookConfigurations(h), func(service string) string {
		port := registrationWebhookPort
		if service == "cluster-manager-work-webhook" {
			port = workWebhookPort
		}
		return net.JoinHostPort(host.String(), strconv.Itoa(port))
	})...)
	if _, err := render.NewApplier(f.Hub.Client, f.Hub.Client, "fleet").Apply(ctx, objects...); err != nil {
		return err
	}
	identities := map[string][2]string{bootstrapIdentity: {operatorNamespace, operatorv1.BootstrapServiceAccount}}
	if f.options.Propagation {
		if err := installPropagation(ctx, f.Hub, h.Namespace()); err != nil {
			return err
		}
		identities[config.PropagationController] = [2]string{h.Namespace(), fleetv1alpha1.PropagationServiceAccount}
	}
	for _, component := range manifests.HubComponents(h) {
		identities[component.Workload.Container] = [2]string{h.Namespace(), component.Workload.ServiceAccount}
	}
	for name, account := range identities {
		if err := f.writeKubeconfig(ctx, name, account[0], account[1]); err != nil {
			return err
		}
	}
	return nil
}

// installPropagation gives the account of the controller of propagation its rights.
// Those to the objects that policies select it keeps itself, in the second role.
func installPropagation(ctx context.Context, hub *Cluster, namespace string) error {
	rules, _, err := config.Rules(config.PropagationController)
	if err != nil {
		return err
	}
	account := render.ResourceMeta{Namespace: namespace, Name: fleetv1alpha1.PropagationServiceAccount}
	objects := []render.Object{render.ServiceAccount(account)}
	for name, rules := range map[string][]rbacv1.PolicyRule{"propagation": rules, fleetv1alpha1.PropagationTemplatesRole: nil} {
		role := render.ResourceMeta{Name: name}
		objects = append(objects, render.ClusterRole(role, rules),
			render.ClusterRoleBinding(role, name, render.AccountSubject(account.Namespace, account.Name)))
	}
	_, err = render.NewApplier(hub.Client, hub.Client, "fleet").Apply(ctx, objects...)
	return err
}

func (f *Fleet) ensureNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	_, err := f.Hub.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace.Name, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	_, err = f.Hub.Kubernetes.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return err
}

// servingCertificate makes the certificate of the webhook servers, which are
// programs on this machine, and returns it with the address.
func (f *Fleet) servingCertificate() (net.IP, []byte, error) {
	host, err := f.Host(f.Hub)
	if err != nil {
		return nil, nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.String(), []net.IP{host}, nil)
	if err != nil {
		return nil, nil, err
	}
	err = errors.Join(
		os.MkdirAll(f.Path("certs"), 0o700),
		os.WriteFile(f.Path("certs", "tls.crt"), certificate, 0o600),
		os.WriteFile(f.Path("certs", "tls.key"), key, 0o600),
	)
	return host, certificate, err
}

// WithoutServices turns the Services in webhook configurations into addresses,
// host and port, that the function returns by their names.
func WithoutServices(objects []render.Object, address func(service string) string) []render.Object {
	direct := func(c *admissionv1ac.WebhookClientConfigApplyConfiguration) {
		c.WithURL("https://" + address(*c.Service.Name) + *c.Service.Path)
		c.Service = nil
	}
	for _, object := range objects {
		switch configuration := object.(type) {
		case *admissionv1ac.MutatingWebhookConfigurationApplyConfiguration:
			for i := range configuration.Webhooks {
				direct(configuration.Webhooks[i].ClientConfig)
			}
		case *admissionv1ac.ValidatingWebhookConfigurationApplyConfiguration:
			for i := range configuration.Webhooks {
				direct(configuration.Webhooks[i].ClientConfig)
			}
		}
	}
	return objects
}

// writeKubeconfig writes a kubeconfig with a token of a ServiceAccount.
func (f *Fleet) writeKubeconfig(ctx context.Context, name, namespace, account string) error {
	seconds := int64(tokenLifetime / time.Second)
	token, err := f.Hub.Kubernetes.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	kubeconfig, err := clientcmd.LoadFromFile(f.Hub.Kubeconfig)
	if err != nil {
		return err
	}
	user := kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	return clientcmd.WriteToFile(*kubeconfig, f.Path(name+".kubeconfig"))
}
