// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// dedicatedObjects are what makes a dedicated hub, in the order in which to
// apply them.
type dedicatedObjects struct {
	// controlPlaneOperator and hubOperator install the operators.
	controlPlaneOperator, hubOperator []*unstructured.Unstructured
	// controlPlane is the control plane with its namespaces and the permissions that
	// its operator has there.
	controlPlane []*unstructured.Unstructured
	// hub is the hub on it.
	hub []*unstructured.Unstructured
}

func (o dedicatedObjects) allObjects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, some := range [][]*unstructured.Unstructured{o.controlPlaneOperator, o.hubOperator, o.controlPlane, o.hub} {
		all = append(all, some...)
	}
	return all
}

// operatorOptions are those of the two operators.
type operatorOptions struct{ controlPlane, hub install.OperatorOptions }

// renderObjects returns what makes the dedicated hub.
func (d *dedicatedHub) renderObjects(options operatorOptions, cp fleetv1alpha1.ControlPlaneSpec, hub operatorv1.ClusterManagerSpec) (o dedicatedObjects, err error) {
	if o.controlPlaneOperator, err = install.ControlPlaneOperator().RenderObjects(options.controlPlane); err != nil {
		return o, err
	}
	if o.hubOperator, err = install.ClusterManagerOperator().RenderObjects(options.hub); err != nil {
		return o, err
	}
	if o.controlPlane, err = d.namespaceObjects(); err != nil {
		return o, err
	}
	instance, err := install.ControlPlaneObject(d.controlPlaneKey(), cp)
	if err != nil {
		return o, err
	}
	o.controlPlane = append(o.controlPlane, instance)
	if o.hub, err = d.webhookServices(); err != nil {
		return o, err
	}
	if instance, err = install.ClusterManagerObject(d.name, hub); err != nil {
		return o, err
	}
	o.hub = append(o.hub, instance)
	return o, nil
}

// namespaceObjects are the namespaces of the control plane and of the hub's components,
// each for its operator, and what lets the operator of the control plane work there.
func (d *dedicatedHub) namespaceObjects() ([]*unstructured.Unstructured, error) {
	namespace := func(name, operator string) *corev1ac.NamespaceApplyConfiguration {
		return corev1ac.Namespace(name).WithLabels(install.CapstanLabels()).WithLabels(map[string]string{operatorv1.LabelOperatedBy: operator})
	}
	allow := func(name, namespace, role string) *rbacv1ac.RoleBindingApplyConfiguration {
		operator := install.ControlPlaneOperator().DeploymentKey()
		return rbacv1ac.RoleBinding(name, namespace).WithLabels(install.CapstanLabels()).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role)).
			WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(operator.Namespace).WithName(operator.Name))
	}
	return install.EncodeObjects(
		namespace(d.controlPlaneKey().Namespace, fleetv1alpha1.ControlPlaneOperator).WithLabels(map[string]string{labelPodSecurity: "restricted"}),
		allow(fleetv1alpha1.ControlPlaneOperator, d.controlPlaneKey().Namespace, fleetv1alpha1.ControlPlaneNamespaceRole),
		namespace(d.name, install.ClusterManagerOperator().DeploymentKey().Name),
		allow(kubeconfigBinding, d.name, fleetv1alpha1.ControlPlaneKubeconfigRole),
	)
}

const (
	labelPodSecurity = "pod-security.kubernetes.io/enforce"
	// kubeconfigBinding lets the operator write the kubeconfig of the control plane
	// where the operator of the hub reads it.
	kubeconfigBinding = "control-plane-kubeconfig"
)

// webhookServices lead the API server to the webhooks of the hub.
func (d *dedicatedHub) webhookServices() ([]*unstructured.Unstructured, error) {
	service := func(name string) *corev1ac.ServiceApplyConfiguration {
		return corev1ac.Service(name, d.name).WithLabels(install.CapstanLabels()).WithSpec(corev1ac.ServiceSpec().
			WithSelector(map[string]string{"app": d.name + "-" + name}).
			WithPorts(corev1ac.ServicePort().WithPort(webhookPort).WithTargetPort(intstr.FromInt32(webhookTargetPort))))
	}
	return install.EncodeObjects(service(registrationWebhook), service(workWebhook))
}
