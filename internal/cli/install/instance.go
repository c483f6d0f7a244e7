// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// The names that the objects have which the operators work for, if nobody wants
// them otherwise.
const (
	ClusterManagerName = "cluster-manager"
	KlusterletName     = "klusterlet"
)

// ClusterManagerObject returns the object that makes a cluster a hub. Only what is set
// in the spec is in it, so that applying it leaves alone what others have set.
func ClusterManagerObject(name string, spec operatorv1.ClusterManagerSpec) (*unstructured.Unstructured, error) {
	return operatorInstance(ClusterManagerOperator(), name, &spec)
}

// KlusterletObject returns the object that makes a cluster a member, likewise.
func KlusterletObject(name string, spec operatorv1.KlusterletSpec) (*unstructured.Unstructured, error) {
	return operatorInstance(KlusterletOperator(), name, &spec)
}

// DedicatedName is what a dedicated hub is called if nobody says otherwise.
const DedicatedName = "hub"

// DedicatedKey is the name of the ControlPlane of a dedicated hub on its host. Its
// namespace is not that of the ClusterManager, which takes its namespace with it.
func DedicatedKey(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: name + "-control-plane", Name: name}
}

// ControlPlaneObject returns the object that makes the API server of a dedicated hub,
// likewise.
func ControlPlaneObject(key client.ObjectKey, spec fleetv1alpha1.ControlPlaneSpec) (*unstructured.Unstructured, error) {
	object, err := operatorInstance(ControlPlaneOperator(), key.Name, &spec)
	if err != nil {
		return nil, err
	}
	object.SetNamespace(key.Namespace)
	return object, nil
}

func operatorInstance(operator Operator, name string, spec any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, fmt.Errorf("render %s %q: %w", operator.kind.Kind, name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": pruneUnset(content)}}
	object.SetGroupVersionKind(operator.InstanceKind())
	object.SetName(name)
	object.SetLabels(CapstanLabels())
	return object, nil
}

// CapstanLabels are the labels of everything that is installed.
func CapstanLabels() map[string]string {
	return map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}
}

// pruneUnset leaves away what is not set: Go writes a struct without content as an
// empty object.
func pruneUnset(object map[string]any) map[string]any {
	for key, value := range object {
		if child, ok := value.(map[string]any); ok && len(pruneUnset(child)) == 0 {
			delete(object, key)
		}
		if value == nil || value == "" {
			delete(object, key)
		}
	}
	return object
}

// BootstrapSecret returns the namespace of agents, and the Secret in it with the
// kubeconfig that they register with.
func BootstrapSecret(namespace string, kubeconfig []byte) ([]*unstructured.Unstructured, error) {
	return EncodeObjects(
		corev1ac.Namespace(namespace).WithLabels(CapstanLabels()),
		corev1ac.Secret(operatorv1.BootstrapHubKubeConfigSecret, namespace).WithLabels(CapstanLabels()).
			WithType(corev1.SecretTypeOpaque).WithData(map[string][]byte{operatorv1.KubeConfigKey: kubeconfig}),
	)
}

// EncodeObjects returns what applies the configurations, in their order.
func EncodeObjects(configurations ...runtime.ApplyConfiguration) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(configurations))
	for _, configuration := range configurations {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
		if err != nil {
			return nil, fmt.Errorf("encode an object to install: %w", err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}
