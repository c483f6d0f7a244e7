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
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
)

const (
	controllerManagerConfig = "controller-manager-config"
	kubeconfigKey           = "kubeconfig"
	clientSigner            = "client-signer"

	controllerManagerGraceSeconds = 15
	controllerManagerStartSeconds = 120
)

// enabledControllers are those of Kubernetes that a hub needs: none of them makes
// anything of a workload.
func enabledControllers() string {
	return strings.Join([]string{
		"bootstrap-signer-controller",
		"certificatesigningrequest-cleaner-controller",
		"certificatesigningrequest-signing-controller",
		"clusterrole-aggregation-controller",
		"garbage-collector-controller",
		"namespace-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"token-cleaner-controller",
		"ttl-after-finished-controller",
		"validatingadmissionpolicy-status-controller",
	}, ",")
}

// ControllerManagerConfig returns the ConfigMap with the kubeconfig of the
// controller manager, which names its certificate as a file.
func ControllerManagerConfig(p Plane) (render.Object, error) {
	client := pkiDir + "/" + controllerManagerSecret
	kubeconfig, err := kubeconfigOf(p.Name, clientcmdapi.Cluster{
		Server: p.InternalURL(), CertificateAuthority: pkiDir + "/" + ServingAuthority + "/" + certs.BundleKey,
	}, clientcmdapi.AuthInfo{
		ClientCertificate: client + "/" + corev1.TLSCertKey, ClientKey: client + "/" + corev1.TLSPrivateKeyKey,
	})
	if err != nil {
		return nil, err
	}
	return render.ConfigMap(p.resourceMeta(controllerManagerConfig), map[string]string{kubeconfigKey: string(kubeconfig)}), nil
}

// ControllerManagerDeployment returns the Deployment of the controller manager.
// One of its pods leads, so there is nothing to lose while one is replaced.
func ControllerManagerDeployment(p Plane) render.Object {
	return componentDeployment(p, controllerManagerComponent(p), appsv1ac.RollingUpdateDeployment().
		WithMaxSurge(intstr.FromInt32(1)).WithMaxUnavailable(intstr.FromInt32(1)))
}

func controllerManagerComponent(p Plane) podComponent {
	kubeconfig := configDir + "/" + controllerManagerConfig + "/" + kubeconfigKey
	return podComponent{
		name:      ControllerManager,
		image:     p.componentImage(p.Spec.Images.ControllerManager, "kube-controller-manager", p.Spec.Version),
		resources: p.Spec.ControllerManager.Resources, cpu: "25m", memory: "64Mi",
		command: []string{
			"kube-controller-manager",
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--controllers=" + enabledControllers(),
			"--use-service-account-credentials=true",
			"--leader-elect=true",
			// One signer only: agents and their likes get client certificates.
			"--cluster-signing-kube-apiserver-client-cert-file=" + pkiDir + "/" + clientSigner + "/" + corev1.TLSCertKey,
			"--cluster-signing-kube-apiserver-client-key-file=" + pkiDir + "/" + clientSigner + "/" + corev1.TLSPrivateKeyKey,
			"--root-ca-file=" + pkiDir + "/" + ServingAuthority + "/" + certs.BundleKey,
			"--service-account-private-key-file=" + pkiDir + "/" + serviceAccountSecret + "/" + ServiceAccountKey,
			fmt.Sprintf("--secure-port=%d", controllerManagerPort),
			"--profiling=false",
		},
		ports: []*corev1ac.ContainerPortApplyConfiguration{render.ContainerPort("https", controllerManagerPort)},
		files: []mountedFiles{
			secretFiles(controllerManagerSecret, p.ResourceName(controllerManagerSecret)),
			secretFiles(clientSigner, p.ResourceName(ClientAuthority)),
			secretFiles(serviceAccountSecret, p.ServiceAccountSecret()),
			bundleFiles(p, ServingAuthority),
			{volume: controllerManagerConfig, directory: configDir + "/" + controllerManagerConfig, configMap: p.ResourceName(controllerManagerConfig)},
		},
		probes: componentProbes{
			port: controllerManagerPort, scheme: corev1.URISchemeHTTPS,
			start: "/healthz", live: "/healthz", ready: "/healthz", startSeconds: controllerManagerStartSeconds,
		},
		graceSeconds: controllerManagerGraceSeconds,
	}
}
