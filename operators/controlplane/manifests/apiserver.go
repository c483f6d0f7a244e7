// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// Keys of Secrets and ConfigMaps that the API server reads.
const (
	// ServiceAccountKey is the private key that signs tokens of ServiceAccounts, and
	// ServiceAccountPublicKeys has all public keys that verify them.
	ServiceAccountKey        = "service-account.key"
	ServiceAccountPublicKeys = "service-account.pub"
	// ServiceAccountIssuer is the issuer of these tokens.
	ServiceAccountIssuer = "issuer"
	// AuditPolicyKey is the key of the ConfigMap with an audit policy.
	AuditPolicyKey = "policy.yaml"

	encryptionKey     = "encryption.yaml"
	authenticationKey = "authentication.yaml"

	apiServerConfig = "apiserver-config"
	auditVolume     = "audit-policy"
)

const (
	// shutdownDelaySeconds is how long an API server that terminates goes on
	// serving: longer than it takes until nobody connects to it anymore.
	shutdownDelaySeconds = 20
	// apiServerGraceSeconds is the delay and the longest request.
	apiServerGraceSeconds = shutdownDelaySeconds + 65
	apiServerStartSeconds = 240

	// serviceCIDR is where Services get addresses from that are stored in the hub:
	// nothing has these addresses.
	serviceCIDR = "10.96.0.0/12"

	// nothing is a component that has no pods.
	nothing = "none"
)

// anonymousPaths are what can be read without a credential: health, and where
// agents that join find the API server and its certificates.
const authenticationConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
  - path: /api/v1/namespaces/kube-public/configmaps/cluster-info
`

// disabledAdmission are the plugins that would refuse or change what is stored,
// or keep it from being deleted: what is stored in a hub is a template, and quotas,
// limits and classes next to it are those of members. Webhooks cannot run before
// they reach the API server, which nobody does while it is closed.
func disabledAdmission(p Plane) string {
	plugins := []string{
		"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger", "PersistentVolumeClaimResize",
		"Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
	}
	if p.Hold == fleetv1alpha1.HoldClosed {
		plugins = append(plugins, "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
	}
	return strings.Join(plugins, ",")
}

// APIServerConfig returns the ConfigMap with the configuration of the API server.
func APIServerConfig(p Plane) render.Object {
	return render.ConfigMap(p.resourceMeta(apiServerConfig), map[string]string{authenticationKey: authenticationConfiguration})
}

// APIServerService returns the Service of the API server.
func APIServerService(p Plane) render.Object {
	service := p.Spec.Service
	m := p.resourceMeta(APIServer)
	port := corev1ac.ServicePort().WithName("https").WithProtocol(corev1.ProtocolTCP).
		WithPort(fleetv1alpha1.ControlPlanePort).WithTargetPort(intstr.FromInt32(fleetv1alpha1.ControlPlanePort))
	if service.NodePort != 0 {
		port.WithNodePort(service.NodePort)
	}
	selected := p.PodLabels(APIServer)
	if p.Hidden {
		selected = p.PodLabels(nothing)
	}
	spec := corev1ac.ServiceSpec().WithType(service.Type).WithSelector(selected).WithPorts(port)
	if service.Type == corev1.ServiceTypeLoadBalancer && service.LoadBalancerClass != nil {
		spec.WithLoadBalancerClass(*service.LoadBalancerClass)
	}
	return corev1ac.Service(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(service.Annotations).WithSpec(spec)
}

// APIServerDeployment returns the Deployment of the API server. A new pod is
// ready before an old one goes.
func APIServerDeployment(p Plane) render.Object {
	return componentDeployment(p, apiServerComponent(p), appsv1ac.RollingUpdateDeployment().
		WithMaxSurge(intstr.FromInt32(1)).WithMaxUnavailable(intstr.FromInt32(0)))
}

func componentDeployment(p Plane, c podComponent, rolling *appsv1ac.RollingUpdateDeploymentApplyConfiguration) render.Object {
	m := p.resourceMeta(c.name)
	return appsv1ac.Deployment(m.Name, m.Namespace).WithLabels(m.Labels).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(p.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(c.name))).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType("RollingUpdate").WithRollingUpdate(rolling)).
			WithTemplate(podTemplate(p, c)))
}

func apiServerComponent(p Plane) podComponent {
	c := podComponent{
		name:      APIServer,
		image:     p.componentImage(p.Spec.Images.APIServer, "kube-apiserver", p.Spec.Version),
		resources: p.Spec.APIServer.Resources, cpu: "100m", memory: "256Mi",
		command: append([]string{"kube-apiserver"}, apiServerFlags(p)...),
		ports:   []*corev1ac.ContainerPortApplyConfiguration{render.ContainerPort("https", fleetv1alpha1.ControlPlanePort)},
		files: []mountedFiles{
			secretFiles(servingSecret, p.ResourceName(servingSecret)),
			secretFiles(etcdClientSecret, etcdCredential(p)),
			secretFiles(frontProxySecret, p.ResourceName(frontProxySecret)),
			secretFiles(serviceAccountSecret, p.ServiceAccountSecret()),
			bundleFiles(p, ClientAuthority),
			bundleFiles(p, FrontProxyAuthority),
			{volume: encryptionSecret, directory: configDir + "/" + encryptionSecret, secret: p.EncryptionSecret()},
			{volume: apiServerConfig, directory: configDir + "/" + apiServerConfig, configMap: p.ResourceName(apiServerConfig)},
		},
		probes: componentProbes{
			port: fleetv1alpha1.ControlPlanePort, scheme: corev1.URISchemeHTTPS,
			start: "/livez", live: "/livez", ready: "/readyz", startSeconds: apiServerStartSeconds,
		},
		graceSeconds: apiServerGraceSeconds,
	}
	if p.HasManagedEtcd() {
		c.files = append(c.files, bundleFiles(p, EtcdAuthority))
	}
	if audit := p.Spec.Audit; audit != nil {
		c.files = append(c.files, mountedFiles{volume: auditVolume, directory: configDir + "/" + auditVolume, configMap: audit.PolicyConfigMap.Name})
	}
	return c
}

func apiServerFlags(p Plane) []string {
	flags := []string{
		fmt.Sprintf("--secure-port=%d", fleetv1alpha1.ControlPlanePort),
		"--tls-cert-file=" + pkiDir + "/" + servingSecret + "/" + corev1.TLSCertKey,
		"--tls-private-key-file=" + pkiDir + "/" + servingSecret + "/" + corev1.TLSPrivateKeyKey,
		"--client-ca-file=" + pkiDir + "/" + ClientAuthority + "/" + certs.BundleKey,

		"--requestheader-client-ca-file=" + pkiDir + "/" + FrontProxyAuthority + "/" + certs.BundleKey,
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pkiDir + "/" + frontProxySecret + "/" + corev1.TLSCertKey,
		"--proxy-client-key-file=" + pkiDir + "/" + frontProxySecret + "/" + corev1.TLSPrivateKeyKey,
		// Services of type ExternalName lead to aggregated APIs.
		"--enable-aggregator-routing=false",

		"--service-account-issuer=" + p.Issuer,
		"--service-account-signing-key-file=" + pkiDir + "/" + serviceAccountSecret + "/" + ServiceAccountKey,
		"--service-account-key-file=" + pkiDir + "/" + serviceAccountSecret + "/" + ServiceAccountPublicKeys,

		"--authentication-config=" + configDir + "/" + apiServerConfig + "/" + authenticationKey,
		"--enable-bootstrap-token-auth=true",
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=" + disabledAdmission(p),
		// Privileged pods are templates as well; they run elsewhere.
		"--allow-privileged=true",

		"--encryption-provider-config=" + configDir + "/" + encryptionSecret + "/" + encryptionKey,
		"--encryption-provider-config-automatic-reload=true",

		"--service-cluster-ip-range=" + serviceCIDR,
		// Nothing runs here that would look for the API server in Service kubernetes.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
		fmt.Sprintf("--shutdown-delay-duration=%ds", shutdownDelaySeconds),
		"--shutdown-send-retry-after=true",
	}
	if p.Spec.Replicas > 1 {
		flags = append(flags, "--goaway-chance=0.001") // so that clients spread over the replicas
	}
	if p.Spec.Audit != nil {
		flags = append(flags, "--audit-policy-file="+configDir+"/"+auditVolume+"/"+AuditPolicyKey, "--audit-log-path=-")
	}
	return append(flags, etcdFlags(p)...)
}

func etcdFlags(p Plane) []string {
	client := pkiDir + "/" + etcdClientSecret
	flags := []string{
		"--etcd-certfile=" + client + "/" + corev1.TLSCertKey,
		"--etcd-keyfile=" + client + "/" + corev1.TLSPrivateKeyKey,
	}
	if external := p.Spec.Etcd.External; external != nil {
		return append(flags, "--etcd-servers="+strings.Join(external.Endpoints, ","),
			"--etcd-cafile="+client+"/"+ExternalEtcdCA, "--etcd-prefix="+external.Prefix)
	}
	none := func(int32) string { return "" }
	return append(flags, "--etcd-servers="+strings.Join(etcdURLs(p, none, EtcdClientPort), ","),
		"--etcd-cafile="+pkiDir+"/"+EtcdAuthority+"/"+certs.BundleKey)
}

// ExternalEtcdCA is the key of the authority in the Secret of an external etcd.
const ExternalEtcdCA = "ca.crt"

// etcdCredential is the Secret with the certificate of the API server for etcd.
func etcdCredential(p Plane) string {
	if external := p.Spec.Etcd.External; external != nil {
		return external.SecretRef.Name
	}
	return p.ResourceName(etcdClientSecret)
}
