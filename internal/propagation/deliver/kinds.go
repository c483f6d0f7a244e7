// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// kindsRolePrefix begins the names of the ClusterRoles that come with definitions.
const kindsRolePrefix = "open-cluster-management:work:"

// clusterRoleForKind returns the ClusterRole by which an agent may manage the objects of a kind,
// for the definition of that kind; nil for all other objects. An agent has no
// rights to kinds that it does not know, and whoever sends the definition of a kind
// sends objects of it next. It has the marks of the definition, and goes with it.
func clusterRoleForKind(definition *unstructured.Unstructured) *unstructured.Unstructured {
	if definition.GroupVersionKind().GroupKind() != apiextensionsv1.Kind("CustomResourceDefinition") {
		return nil
	}
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	if group == "" || plural == "" {
		return nil // the cluster refuses such a definition
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRole",
		"rules": []any{map[string]any{
			"apiGroups": []any{group}, "resources": []any{plural},
			"verbs": []any{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}}
	labels := maps.Clone(definition.GetLabels())
	labels[operatorv1.LabelAggregateToWork] = "true"
	object.SetName(fmt.Sprintf("%s%s.%s", kindsRolePrefix, plural, group))
	object.SetLabels(labels)
	object.SetAnnotations(maps.Clone(definition.GetAnnotations()))
	return object
}
