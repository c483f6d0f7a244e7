// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install puts an operator and its resource onto a cluster, waits until
// they work, and removes them. It says the same as the manifests in
// config/operator, which `make deploy-hub-operator` and OLM's bundles are made
// of.
package install

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/version"
)

const (
	// agentImage is the variable that tells the operator what an empty image field
	// means.
	agentImage = "AGENT_IMAGE"
	// componentReplicas is the flag of the operator of the hub that sets the number
	// of pods of each component.
	componentReplicas = "--deployment-replicas="
)

// Operator is one of the operators.
type Operator struct {
	// manifests is the name of its folder in config/operator.
	manifests string
	// name is that of its Deployment and of the roles.
	name string
	// kind is the one of the objects that it works for.
	kind schema.GroupVersionKind
	// replicates says that it knows the flag componentReplicas.
	replicates bool
	// label is on all that it makes, and installs is a definition among that; empty
	// if it installs none.
	label, installs string
}

// ClusterManagerOperator is the operator of a hub.
func ClusterManagerOperator() Operator {
	return Operator{
		manifests: config.ClusterManagerOperator, name: "cluster-manager", kind: operatorv1.GroupVersion.WithKind("ClusterManager"), replicates: true,
		label: operatorv1.LabelCreatedByClusterManager, installs: "managedclusters." + clusterv1.GroupName,
	}
}

// KlusterletOperator is the operator of a member.
func KlusterletOperator() Operator {
	return Operator{
		manifests: config.KlusterletOperator, name: "klusterlet", kind: operatorv1.GroupVersion.WithKind("Klusterlet"),
		label: operatorv1.LabelCreatedByKlusterlet, installs: "appliedmanifestworks." + workv1.GroupVersion.Group,
	}
}

// ControlPlaneOperator is the operator of the API servers of dedicated hubs.
func ControlPlaneOperator() Operator {
	return Operator{
		manifests: config.ControlPlaneOperator, name: fleetv1alpha1.ControlPlaneOperator,
		kind: fleetv1alpha1.GroupVersion.WithKind("ControlPlane"), label: fleetv1alpha1.LabelControlPlane,
	}
}

// DeploymentKey is the name and namespace of the operator's Deployment.
func (o Operator) DeploymentKey() client.ObjectKey {
	return client.ObjectKey{Namespace: operatorv1.DefaultOperatorNamespace, Name: o.name}
}

// InstanceKind is the kind of the objects that the operator works for.
func (o Operator) InstanceKind() schema.GroupVersionKind { return o.kind }

// CRD is the name of the definition of this kind.
func (o Operator) CRD() string { return strings.ToLower(o.kind.Kind) + "s." + o.kind.Group }

func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// otherOperators are the operators that may be in the same namespace.
func (o Operator) otherOperators() []Operator {
	all := []Operator{ClusterManagerOperator(), KlusterletOperator(), ControlPlaneOperator()}
	return slices.DeleteFunc(all, func(other Operator) bool { return other == o })
}

// OperatorOptions are what an installation of an operator may differ in.
type OperatorOptions struct {
	// Image of the operator and of what it installs. Default: that of this release.
	Image string
	// Replicas is the number of pods of the operator. Default: 1.
	Replicas int32
	// ComponentReplicas is the number of pods of each component of a hub. Default:
	// its operator decides by the nodes of the control plane.
	ComponentReplicas int32
	// InstalledBy is the command that installed the operator, if its counterpart is to
	// remove it as well. Default: none.
	InstalledBy string
}

// ByRegister is the InstalledBy of an operator that "capstan register" has installed,
// and "capstan unregister" removes.
const ByRegister = "capstan-register"

// annotationInstalledBy is where the Deployment of an operator has InstalledBy.
const annotationInstalledBy = "fleet.capstan.io/installed-by"

// RenderObjects returns what installs the operator, in the order in which to apply
// it: what `make deploy-hub-operator` and `make deploy-spoke-operator` apply for
// the same image.
func (o Operator) RenderObjects(options OperatorOptions) ([]*unstructured.Unstructured, error) {
	if err := checkImage(options.Image); err != nil {
		return nil, err
	}
	objects, err := config.Operator(o.manifests)
	if err != nil {
		return nil, err
	}
	for i, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if objects[i], err = o.renderDeployment(object, options); err != nil {
			return nil, fmt.Errorf("render the Deployment of operator %q: %w", o.name, err)
		}
	}
	return objects, nil
}

// checkImage refuses what no image can be called, which would only be noticed
// when no pod comes up.
func checkImage(image string) error {
	const first = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ["
	if image == "" || strings.ContainsRune(first, rune(image[0])) && !strings.ContainsAny(image, " \t\r\n") {
		return nil
	}
	return exit.UsageError("%q is not the name of an image: one looks like registry.example.com/capstan:0.1.0", image)
}

// renderDeployment returns the Deployment of the manifests with the options in it.
func (o Operator) renderDeployment(object *unstructured.Unstructured, options OperatorOptions) (*unstructured.Unstructured, error) {
	deployment := &appsv1ac.DeploymentApplyConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		return nil, err
	}
	image := cmp.Or(options.Image, version.ImageReference())
	container := &deployment.Spec.Template.Spec.Containers[0]
	container.WithImage(image)
	for i := range container.Env {
		if *container.Env[i].Name == agentImage {
			container.Env[i] = *corev1ac.EnvVar().WithName(agentImage).WithValue(image)
		}
	}
	if options.InstalledBy != "" {
		deployment.WithAnnotations(map[string]string{annotationInstalledBy: options.InstalledBy})
	}
	if options.Replicas > 0 {
		deployment.Spec.WithReplicas(options.Replicas)
	}
	if options.ComponentReplicas > 0 && o.replicates {
		container.WithArgs(fmt.Sprint(componentReplicas, options.ComponentReplicas))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// OptionsOf returns the options that a Deployment of the operator has.
func OptionsOf(deployment *appsv1.Deployment) OperatorOptions {
	options := OperatorOptions{InstalledBy: deployment.Annotations[annotationInstalledBy]}
	if deployment.Spec.Replicas != nil {
		options.Replicas = *deployment.Spec.Replicas
	}
	for i := range deployment.Spec.Template.Spec.Containers {
		container := &deployment.Spec.Template.Spec.Containers[i]
		options.Image = cmp.Or(options.Image, container.Image)
		for _, arg := range container.Args {
			value, _ := strings.CutPrefix(arg, componentReplicas)
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				options.ComponentReplicas = int32(n)
			}
		}
	}
	return options
}
