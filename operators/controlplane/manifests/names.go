// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests builds what the operator of ControlPlanes installs: etcd,
// the API server and its controller manager, what they are configured with, and
// the first objects in the API server itself.
//
// It is pure: the same Plane always gives the same objects.
package manifests

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// Names of the components, in labels and as containers.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	// Restore is what replaces the data of a member of etcd.
	Restore = "restore"
)

// Names of the authorities, each of which signs for one purpose only.
const (
	EtcdAuthority       = "etcd-ca"
	ServingAuthority    = "serving-ca"
	ClientAuthority     = "client-ca"
	FrontProxyAuthority = "front-proxy-ca"
)

// Secrets besides those of the authorities, after the name of the ControlPlane.
const (
	etcdServerSecret        = "etcd-server"
	etcdClientSecret        = "etcd-client"
	servingSecret           = "apiserver"
	frontProxySecret        = "front-proxy-client"
	controllerManagerSecret = "controller-manager"
	adminSecret             = "admin"
	serviceAccountSecret    = "service-account"
	encryptionSecret        = "encryption"
)

// Users in client certificates.
const (
	adminUser             = "capstan:admin"
	controllerManagerUser = "system:kube-controller-manager"
	frontProxyUser        = "front-proxy-client"
	etcdMemberUser        = "etcd-member"
	etcdClientUser        = "kube-apiserver"
)

// EtcdClientPort is where members of etcd serve clients.
const EtcdClientPort int32 = 2379

// Other ports of the pods.
const (
	etcdPeerPort          int32 = 2380
	etcdHealthPort        int32 = 2381
	controllerManagerPort int32 = 10257
)

// Plane is what manifests are made of.
type Plane struct {
	Name, Namespace string
	Spec            fleetv1alpha1.ControlPlaneSpec
	// Endpoint is the host, and the port, by which clients reach the API server from
	// anywhere.
	Endpoint APIServerEndpoint
	// Issuer is that of the tokens of ServiceAccounts.
	Issuer string
	// Hashes tell what the pods of a component read when they start only, so that they
	// start anew with something else.
	Hashes map[string]string
	// ClusterIP is that of the Service, for the certificate.
	ClusterIP string
	// Hold is how the control plane is held; empty if it is not.
	Hold string
	// Hidden says that the Service leads to no API server.
	Hidden bool
}

// APIServerEndpoint is the address of an API server.
type APIServerEndpoint struct {
	Host string
	Port int32
}

// URL returns the address as clients write it; empty if there is none yet.
func (e APIServerEndpoint) URL() string {
	if e.Host == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// ResourceName returns the name of something that belongs to the ControlPlane.
func (p Plane) ResourceName(suffix string) string { return p.Name + "-" + suffix }

// Labels are on everything that is made for the ControlPlane.
func (p Plane) Labels() map[string]string {
	return map[string]string{fleetv1alpha1.LabelControlPlane: p.Name, operatorv1.LabelPartOf: operatorv1.PartOfCapstan}
}

// OwnsObject reports whether an object was made for the ControlPlane, and not for another
// one or by somebody else.
func (p Plane) OwnsObject(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[fleetv1alpha1.LabelControlPlane] == p.Name &&
		(object.GetNamespace() == p.Namespace || labels[fleetv1alpha1.LabelControlPlaneNamespace] == p.Namespace)
}

// PodLabels are on the pods of a component, and select them.
func (p Plane) PodLabels(component string) map[string]string {
	return map[string]string{fleetv1alpha1.LabelControlPlane: p.Name, fleetv1alpha1.LabelControlPlaneComponent: component}
}

func (p Plane) resourceMeta(suffix string) render.ResourceMeta {
	return render.ResourceMeta{Name: p.ResourceName(suffix), Namespace: p.Namespace, Labels: p.Labels()}
}

// HasManagedEtcd reports whether the operator runs etcd.
func (p Plane) HasManagedEtcd() bool { return p.Spec.Etcd.Managed != nil }

// KubeconfigSecret returns the namespace and the name of the Secret with the
// kubeconfig.
func (p Plane) KubeconfigSecret() (namespace, name string) {
	if ref := p.Spec.KubeconfigSecret; ref != nil {
		return ref.Namespace, ref.Name
	}
	return p.Name, operatorv1.ExternalHubKubeConfigSecret
}

// ServiceAccountSecret is the Secret with the keys of ServiceAccounts' tokens.
func (p Plane) ServiceAccountSecret() string { return p.ResourceName(serviceAccountSecret) }

// EncryptionSecret is the Secret with the keys of the encryption at rest.
func (p Plane) EncryptionSecret() string { return p.ResourceName(encryptionSecret) }

// KeptSecrets are those without which nobody can use what is stored: the
// authorities and the keys. They outlive the ControlPlane, as the data do.
func (p Plane) KeptSecrets() []string {
	names := []string{p.ServiceAccountSecret(), p.EncryptionSecret()}
	for authority := range p.Authorities() {
		names = append(names, p.ResourceName(authority))
	}
	slices.Sort(names)
	return names
}

// AdminSecret is the Secret with the certificate of the kubeconfig's user.
func (p Plane) AdminSecret() string { return p.ResourceName(adminSecret) }

// ServiceHost is the name of the API server in the network of the host.
func (p Plane) ServiceHost() string {
	return p.ResourceName(APIServer) + "." + p.Namespace + ".svc"
}

// InternalURL is how what runs on the host reaches the API server.
func (p Plane) InternalURL() string {
	return APIServerEndpoint{Host: p.ServiceHost(), Port: fleetv1alpha1.ControlPlanePort}.URL()
}

// DefaultIssuer is the issuer of the tokens of a new ControlPlane.
func (p Plane) DefaultIssuer() string { return "https://" + p.ServiceHost() }

// Authorities returns the names of the authorities, with the certificates that
// each has to sign.
func (p Plane) Authorities() map[string][]certs.Leaf {
	all := map[string][]certs.Leaf{
		ServingAuthority: {{Secret: p.ResourceName(servingSecret), Hosts: p.servingHosts()}},
		ClientAuthority: {
			{Secret: p.ResourceName(controllerManagerSecret), User: controllerManagerUser},
			{Secret: p.AdminSecret(), User: adminUser, Groups: []string{fleetv1alpha1.ControlPlaneAdminsGroup}},
		},
		FrontProxyAuthority: {{Secret: p.ResourceName(frontProxySecret), User: frontProxyUser}},
	}
	if p.HasManagedEtcd() {
		all[EtcdAuthority] = []certs.Leaf{
			{Secret: p.ResourceName(etcdServerSecret), Hosts: p.etcdHosts(), User: etcdMemberUser},
			{Secret: p.ResourceName(etcdClientSecret), User: etcdClientUser},
		}
	}
	return all
}

// servingHosts returns the names of the API server, IP addresses last.
func (p Plane) servingHosts() []string {
	names := []string{p.ServiceHost(), p.ServiceHost() + ".cluster.local", p.ResourceName(APIServer) + "." + p.Namespace, p.ResourceName(APIServer), "localhost"}
	var addresses []string
	for _, host := range append([]string{p.Endpoint.Host, p.ClusterIP, "127.0.0.1"}, p.Spec.Service.ExternalNames...) {
		switch {
		case host == "" || host == corev1.ClusterIPNone:
		case net.ParseIP(host) != nil:
			addresses = appendNew(addresses, net.ParseIP(host).String())
		default:
			names = appendNew(names, host)
		}
	}
	return append(names, addresses...)
}

// etcdHosts returns the names of the members. Each of them is listed, as a member
// looks the names of another one up to see that it is at the address.
func (p Plane) etcdHosts() []string {
	service := p.ResourceName(Etcd) + "." + p.Namespace + ".svc"
	names := []string{service, "localhost"}
	for n := range p.Spec.Etcd.Managed.Replicas {
		names = append(names, p.etcdMember(n)+"."+service)
	}
	return append(names, "127.0.0.1")
}

func (p Plane) etcdMember(n int32) string { return fmt.Sprintf("%s-%d", p.ResourceName(Etcd), n) }

// DataClaim is the PersistentVolumeClaim of a member of etcd.
func (p Plane) DataClaim(n int32) string { return dataVolume + "-" + p.etcdMember(n) }

func appendNew(list []string, value string) []string {
	for _, present := range list {
		if present == value {
			return list
		}
	}
	return append(list, value)
}

// componentImage returns the image of a component.
func (p Plane) componentImage(given, name, tag string) string {
	return cmp.Or(given, p.Spec.ImageRegistry+"/"+name+":"+tag)
}
