// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// HomeNamespaces returns the namespace of hosted agents on the management
// cluster; nothing if they are not hosted.
func HomeNamespaces(klusterlet *operatorv1.Klusterlet) []render.Object {
	if !IsHostedMode(klusterlet) {
		return nil
	}
	return []render.Object{render.Namespace(namespaceMeta(klusterlet, AgentNamespace(klusterlet)))}
}

// MemberNamespaces returns the namespaces on the member: that of the agents, or of
// their accounts if they are hosted, and that of the add-ons. The latter belongs
// to all Klusterlets together, so it is applied without their marks.
func MemberNamespaces(klusterlet *operatorv1.Klusterlet) []render.Object {
	addons := render.ResourceMeta{
		Name:        operatorv1.DefaultAddOnNamespace,
		Labels:      map[string]string{operatorv1.LabelAddOnNamespace: "true", operatorv1.LabelOperatedBy: operatorName},
		Annotations: namespaceAnnotations(),
	}
	return []render.Object{render.Namespace(namespaceMeta(klusterlet, MemberNamespace(klusterlet))), render.Namespace(addons)}
}

// operatorName lets the operator write into its namespaces, whose fence bars it
// from others. It may set the label on those that it makes only.
const operatorName = "klusterlet"

func namespaceMeta(klusterlet *operatorv1.Klusterlet, name string) render.ResourceMeta {
	return render.ResourceMeta{
		Name: name,
		Labels: map[string]string{
			operatorv1.LabelKlusterlet: klusterlet.Name, operatorv1.LabelCreatedByKlusterlet: klusterlet.Name,
			operatorv1.LabelOperatedBy: operatorName,
		},
		Annotations: namespaceAnnotations(),
	}
}

// namespaceAnnotations let OpenShift schedule the pods of a namespace onto the
// cores for its platform.
func namespaceAnnotations() map[string]string {
	return map[string]string{operatorv1.AnnotationWorkloadAllowed: "management"}
}
