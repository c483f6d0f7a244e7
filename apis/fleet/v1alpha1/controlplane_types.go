// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControlPlane is a Kubernetes API server for a dedicated hub: it runs as pods
// on the cluster on which it is created, the host, with its own etcd and with
// the controllers that a hub needs, but none for workloads. What is applied to
// it runs nowhere until a policy sends it to a member.
//
// It ends with a kubeconfig in a Secret, which a ClusterManager in mode Hosted
// takes to install a hub there.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cplane
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].reason`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 47 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name begins those of Services and pods, so it has to be a DNS label of at most 47 characters that begins with a letter"
type ControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the control plane.
	// +kubebuilder:default={}
	Spec ControlPlaneSpec `json:"spec"`

	// status is the observed state of the control plane.
	// +optional
	Status ControlPlaneStatus `json:"status,omitempty"`
}

// ControlPlaneSpec is the desired state of a control plane.
//
// +kubebuilder:validation:XValidation:rule="has(self.etcd.managed) || !has(self.rotation) || !has(self.rotation.etcdAuthority) || self.rotation.etcdAuthority.size() == 0",message="rotation.etcdAuthority needs a managed etcd: whoever runs an external one replaces its authority, and then changes the Secret in etcd.external.secretRef"
type ControlPlaneSpec struct {
	// version is the version of Kubernetes. It can be raised by one minor version
	// at a time, and not lowered to another minor version; the API server is
	// upgraded before the controller manager.
	// +kubebuilder:default="v1.36.3"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v1[.][0-9]+[.][0-9]+(-[0-9A-Za-z.]+)?$')",message="has to be a version of Kubernetes such as v1.36.3"
	Version string `json:"version,omitempty"`

	// imageRegistry is where images are pulled from: REGISTRY/etcd,
	// REGISTRY/kube-apiserver and REGISTRY/kube-controller-manager, with the tags of
	// the Kubernetes project. The images must have programs of these names in their
	// PATH.
	// +kubebuilder:default="registry.k8s.io"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	ImageRegistry string `json:"imageRegistry,omitempty"`

	// images are complete image names that take precedence over version and
	// imageRegistry. They have to be of the version in the field version. Default:
	// none.
	// +optional
	Images ControlPlaneImages `json:"images,omitempty"`

	// imagePullSecrets name Secrets in the namespace of the ControlPlane to pull the
	// images with. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// replicas is the number of API servers and of controller managers.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Replicas int32 `json:"replicas,omitempty"`

	// etcd is where the API server stores its objects: an etcd that the operator
	// runs (managed), or another one (external).
	// +kubebuilder:default={managed:{replicas:1,storage:{size:"8Gi"},deletionPolicy:Retain}}
	Etcd ControlPlaneEtcd `json:"etcd,omitzero"`

	// apiServer configures the API server.
	// +optional
	APIServer ControlPlaneComponent `json:"apiServer,omitempty"`

	// controllerManager configures the controller manager.
	// +optional
	ControllerManager ControlPlaneComponent `json:"controllerManager,omitempty"`

	// service defines how clients reach the API server.
	// +kubebuilder:default={}
	Service ControlPlaneService `json:"service,omitempty"`

	// encryption is the encryption of Secrets in etcd.
	// +kubebuilder:default={}
	Encryption ControlPlaneEncryption `json:"encryption,omitempty"`

	// audit configures the audit log of the API server. Default: none.
	// +optional
	Audit *ControlPlaneAudit `json:"audit,omitempty"`

	// placement controls which nodes all pods are scheduled to. Default: any, with
	// replicas on different nodes and in different zones where possible.
	// +optional
	Placement ControlPlanePlacement `json:"placement,omitempty"`

	// priorityClassName is the PriorityClass of all pods; it must exist. Default:
	// none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// networkPolicies limits who may connect to the pods, and whom they may connect
	// to, where the network of the host enforces that.
	// +kubebuilder:default={}
	NetworkPolicies ControlPlaneNetworkPolicies `json:"networkPolicies,omitempty"`

	// rotation asks for new authorities and keys. Default: none.
	// +optional
	Rotation ControlPlaneRotation `json:"rotation,omitzero"`

	// kubeconfigSecret is the Secret that the operator writes a kubeconfig of an
	// administrator of the control plane to, and renews. Default:
	// external-hub-kubeconfig in the namespace with the name of the ControlPlane,
	// which a ClusterManager of the same name in mode Hosted reads.
	// +optional
	KubeconfigSecret *ControlPlaneSecretReference `json:"kubeconfigSecret,omitempty"`
}

// ControlPlaneImages are complete image names.
type ControlPlaneImages struct {
	// etcd is the image of etcd. Default: the version that belongs to the version of
	// Kubernetes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Etcd string `json:"etcd,omitempty"`
	// apiServer is the image of kube-apiserver. Default: that of the version.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	APIServer string `json:"apiServer,omitempty"`
	// controllerManager is the image of kube-controller-manager. Default: that of
	// the version.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ControllerManager string `json:"controllerManager,omitempty"`
}

// ControlPlaneComponent configures the pods of a component.
type ControlPlaneComponent struct {
	// resources are those of each container. Default: requests of 100m CPU and
	// 256Mi memory for the API server, and of 25m CPU and 64Mi memory for the
	// controller manager.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ControlPlaneService is how clients reach the API server.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type == 'NodePort' || self.type == 'LoadBalancer'",message="nodePort needs type NodePort or LoadBalancer"
type ControlPlaneService struct {
	// type is that of the Service: ClusterIP, NodePort or LoadBalancer.
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// nodePort is the port on each node. Default: a free one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort int32 `json:"nodePort,omitempty"`

	// annotations are put on the Service, for load balancers. Default: none.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// loadBalancerClass is that of the Service; it is immutable. Default: that of
	// the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// externalNames are further host names and IP addresses of the API server, for
	// its certificate. The first one is that of status.endpoint. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, isIP(n) || n.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="has to be a list of host names in lower case and IP addresses, without ports"
	ExternalNames []string `json:"externalNames,omitempty"`

	// externalPort is the port of status.endpoint, where clients reach the first of
	// externalNames through something that maps ports. Default: nodePort with type
	// NodePort, else 6443.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ExternalPort int32 `json:"externalPort,omitempty"`
}

// ControlPlaneEncryption is the encryption of Secrets in etcd.
type ControlPlaneEncryption struct {
	// enabled turns the encryption on. What was stored encrypted can be read after
	// it was turned off.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// ControlPlaneAudit configures the audit log of the API server, which the
// containers write to their standard output.
type ControlPlaneAudit struct {
	// policyConfigMap names the ConfigMap in the namespace of the ControlPlane with
	// the audit policy in key policy.yaml. API servers restart when it changes.
	// +required
	// +kubebuilder:validation:Required
	PolicyConfigMap corev1.LocalObjectReference `json:"policyConfigMap"`
}

// ControlPlanePlacement controls which nodes pods are scheduled to.
type ControlPlanePlacement struct {
	// nodeSelector is a set of labels that a node must have. Default: none.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations are added to the pods. Default: none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity takes the place of the preference that replicas run on different
	// nodes and in different zones. Default: that preference.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
}

// ControlPlaneNetworkPolicies limits connections of the pods.
type ControlPlaneNetworkPolicies struct {
	// enabled turns NetworkPolicies on.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// egress are further peers that the API server may connect to besides etcd, DNS
	// and the components of hosted hubs: the webhooks and aggregated API servers of
	// others. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Egress []ControlPlaneEgress `json:"egress,omitempty"`
}

// ControlPlaneEgress is a peer that the API server may connect to.
type ControlPlaneEgress struct {
	// cidr is the range of addresses, such as 192.0.2.10/32.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="has to be a range of addresses such as 192.0.2.10/32"
	CIDR string `json:"cidr"`
	// port is the TCP port.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ControlPlaneSecretReference names a Secret.
type ControlPlaneSecretReference struct {
	// namespace of the Secret. The operator needs permission to write it there.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name of the Secret.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ControlPlaneStatus is the observed state of a control plane.
type ControlPlaneStatus struct {
	// observedGeneration is the generation of the spec that the operator has acted
	// on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// version is the version of Kubernetes that all API servers and controller
	// managers run. During an upgrade it is the previous one.
	// +optional
	Version string `json:"version,omitempty"`

	// endpoint is the URL of the API server for clients, also outside the host. It is
	// set once the API server has a certificate for it.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// certificates are those of the control plane and when they expire. They are
	// renewed before.
	// +optional
	// +listType=map
	// +listMapKey=name
	Certificates []ControlPlaneCertificate `json:"certificates,omitempty"`

	// rotations are the latest ones of each authority and of the keys.
	// +optional
	// +listType=map
	// +listMapKey=name
	Rotations []ControlPlaneRotationStatus `json:"rotations,omitempty"`

	// conditions describe the state of the control plane.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ControlPlaneCertificate is a certificate of a control plane.
type ControlPlaneCertificate struct {
	// name is the name of the Secret with the certificate, in the namespace of the
	// ControlPlane.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// authority is set for those that sign others.
	// +optional
	Authority bool `json:"authority,omitempty"`
	// expires is the time at which it expires.
	// +required
	// +kubebuilder:validation:Required
	Expires metav1.Time `json:"expires"`
}

// ControlPlaneList is a list of ControlPlanes.
//
// +kubebuilder:object:root=true
type ControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ControlPlane `json:"items"`
}
