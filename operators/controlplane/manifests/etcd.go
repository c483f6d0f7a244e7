// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
)

const (
	dataVolume = "data"
	dataDir    = "/var/lib/etcd"

	// etcdTag is the version of etcd that all supported versions of Kubernetes are
	// released with.
	etcdTag = "3.6.8-0"

	etcdGraceSeconds = 30
	// etcdStartSeconds leaves time to read a large database.
	etcdStartSeconds = 300
)

// EtcdService returns the headless Service that gives the members their names,
// also before they are ready, as they need each other for that.
func EtcdService(p Plane) render.Object {
	m := p.resourceMeta(Etcd)
	return corev1ac.Service(m.Name, m.Namespace).WithLabels(m.Labels).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(p.PodLabels(Etcd)).
			WithPorts(
				corev1ac.ServicePort().WithName("client").WithProtocol(corev1.ProtocolTCP).WithPort(EtcdClientPort),
				corev1ac.ServicePort().WithName("peer").WithProtocol(corev1.ProtocolTCP).WithPort(etcdPeerPort)))
}

// EtcdStatefulSet returns the members of etcd.
func EtcdStatefulSet(p Plane) render.Object {
	managed := p.Spec.Etcd.Managed
	m := p.resourceMeta(Etcd)
	return appsv1ac.StatefulSet(m.Name, m.Namespace).WithLabels(m.Labels).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(managed.Replicas).
			WithServiceName(m.Name).
			// All at once: none is ready without the others.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(Etcd))).
			WithTemplate(podTemplate(p, etcdComponent(p))).
			WithVolumeClaimTemplates(dataClaim(p)))
}

func dataClaim(p Plane) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	storage := p.Spec.Etcd.Managed.Storage
	// The type parses only what the API server took for a quantity.
	size, err := resource.ParseQuantity(storage.Size)
	if err != nil {
		size = resource.Quantity{}
	}
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if storage.ClassName != nil {
		spec.WithStorageClassName(*storage.ClassName)
	}
	claim := corev1ac.PersistentVolumeClaim(dataVolume, "").WithLabels(p.PodLabels(Etcd)).WithSpec(spec)
	claim.Namespace = nil
	claim.Kind = nil
	claim.APIVersion = nil
	return claim
}

func etcdComponent(p Plane) podComponent {
	managed := p.Spec.Etcd.Managed
	service := "$(POD_NAME)." + p.ResourceName(Etcd) + "." + p.Namespace + ".svc"
	server := pkiDir + "/" + etcdServerSecret
	bundle := pkiDir + "/" + EtcdAuthority + "/" + certs.BundleKey
	return podComponent{
		name:      Etcd,
		image:     p.componentImage(p.Spec.Images.Etcd, "etcd", etcdTag),
		resources: managed.Resources, cpu: "100m", memory: "128Mi",
		env: []*corev1ac.EnvVarApplyConfiguration{render.EnvField("POD_NAME", "metadata.name")},
		command: []string{
			"etcd",
			"--name=$(POD_NAME)",
			"--data-dir=" + dataDir + "/data",
			"--initial-cluster-state=new",
			"--initial-cluster-token=" + p.etcdToken(),
			"--initial-cluster=" + strings.Join(etcdURLs(p, func(n int32) string { return p.etcdMember(n) + "=" }, etcdPeerPort), ","),
			fmt.Sprintf("--initial-advertise-peer-urls=https://%s:%d", service, etcdPeerPort),
			fmt.Sprintf("--listen-peer-urls=https://0.0.0.0:%d", etcdPeerPort),
			fmt.Sprintf("--advertise-client-urls=https://%s:%d", service, EtcdClientPort),
			fmt.Sprintf("--listen-client-urls=https://0.0.0.0:%d", EtcdClientPort),
			fmt.Sprintf("--listen-metrics-urls=http://0.0.0.0:%d", etcdHealthPort),
			"--cert-file=" + server + "/" + corev1.TLSCertKey,
			"--key-file=" + server + "/" + corev1.TLSPrivateKeyKey,
			"--trusted-ca-file=" + bundle,
			"--client-cert-auth=true",
			"--peer-cert-file=" + server + "/" + corev1.TLSCertKey,
			"--peer-key-file=" + server + "/" + corev1.TLSPrivateKeyKey,
			"--peer-trusted-ca-file=" + bundle,
			"--peer-client-cert-auth=true",
			// The API server has a certificate of the same authority, and is no member.
			"--peer-cert-allowed-cn=" + etcdMemberUser,
			"--tls-min-version=TLS1.2",
		},
		ports: []*corev1ac.ContainerPortApplyConfiguration{
			render.ContainerPort("client", EtcdClientPort), render.ContainerPort("peer", etcdPeerPort), render.ContainerPort("health", etcdHealthPort),
		},
		files:  []mountedFiles{secretFiles(etcdServerSecret, p.ResourceName(etcdServerSecret)), bundleFiles(p, EtcdAuthority)},
		mounts: []*corev1ac.VolumeMountApplyConfiguration{render.VolumeMount(dataVolume, dataDir, false)},
		probes: componentProbes{
			port: etcdHealthPort, scheme: corev1.URISchemeHTTP,
			start: "/readyz", live: "/livez", ready: "/readyz", startSeconds: etcdStartSeconds,
		},
		graceSeconds: etcdGraceSeconds,
	}
}

// etcdToken tells the members of this etcd from those of others.
func (p Plane) etcdToken() string { return p.Namespace + "." + p.Name }

// etcdURLs returns the URLs of the members, each after what the function returns.
func etcdURLs(p Plane, before func(n int32) string, port int32) []string {
	var urls []string
	for n := range p.Spec.Etcd.Managed.Replicas {
		urls = append(urls, fmt.Sprintf("%shttps://%s.%s.%s.svc:%d", before(n), p.etcdMember(n), p.ResourceName(Etcd), p.Namespace, port))
	}
	return urls
}
