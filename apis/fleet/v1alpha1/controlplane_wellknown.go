// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// What belongs to a ControlPlane, in its namespace.
const (
	// FinalizerControlPlane keeps a ControlPlane until the operator has removed what
	// it installed.
	FinalizerControlPlane = "fleet.capstan.io/control-plane-cleanup"
	// LabelControlPlane is on everything that the operator makes for a ControlPlane.
	// The value is its name.
	LabelControlPlane = "fleet.capstan.io/control-plane"
	// LabelControlPlaneNamespace is on what it makes in other namespaces besides. The
	// value is the namespace of the ControlPlane.
	LabelControlPlaneNamespace = "fleet.capstan.io/control-plane-namespace"
	// LabelControlPlaneComponent is on the pods and what belongs to them. The value is
	// one of etcd, apiserver and controller-manager, and of restore while data are
	// being replaced.
	LabelControlPlaneComponent = "fleet.capstan.io/control-plane-component"

	// ControlPlaneEtcdSuffix, ControlPlaneAPIServerSuffix and
	// ControlPlaneControllerManagerSuffix follow the name of the ControlPlane in those
	// of the StatefulSet and of the Deployments, and of their Services.
	ControlPlaneEtcdSuffix              = "-etcd"
	ControlPlaneAPIServerSuffix         = "-apiserver"
	ControlPlaneControllerManagerSuffix = "-controller-manager"

	// ControlPlanePort is the port of the Service of the API server and of its pods.
	ControlPlanePort = 6443
)

// How a ControlPlane is held while its data are replaced.
const (
	// AnnotationHold on a ControlPlane tells the operator how far to run it. Whoever
	// sets it removes it again.
	AnnotationHold = "fleet.capstan.io/hold"
	// HoldStopped means that no pod runs.
	HoldStopped = "Stopped"
	// HoldClosed means that etcd and the API server run, but that the Service leads
	// nobody to them, that no webhook is called, and that the controller manager does
	// not run.
	HoldClosed = "Closed"
)

// The operator of ControlPlanes and its permissions.
const (
	// ControlPlaneOperator is the name of the Deployment and of the ServiceAccount of
	// the operator.
	ControlPlaneOperator = "control-plane"
	// ControlPlaneNamespaceRole is the ClusterRole that the ServiceAccount needs in
	// the namespace of each ControlPlane, by a RoleBinding.
	ControlPlaneNamespaceRole = "capstan:control-plane:namespace"
	// ControlPlaneKubeconfigRole is the ClusterRole that it needs, by a RoleBinding, in
	// the namespace of spec.kubeconfigSecret if that is another one. It is for Secrets
	// with the default name.
	ControlPlaneKubeconfigRole = "capstan:control-plane:kubeconfig"
	// ControlPlaneAdminsGroup is the group of the user in the kubeconfig. It is bound
	// to cluster-admin in the control plane.
	ControlPlaneAdminsGroup = "capstan:control-plane-admins"
)

// DefaultKubernetesVersion is the default of spec.version of a ControlPlane.
const DefaultKubernetesVersion = "v1.36.3"
