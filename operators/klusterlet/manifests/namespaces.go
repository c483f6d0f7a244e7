// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/render"
)

// Namespaces returns the namespace of the agents and that of the add-ons. The
// latter belongs to all Klusterlets together and is marked with the last that
// was reconciled only where it is new, so it is applied without their marks.
func Namespaces(klusterlet *operatorv1.Klusterlet) []render.Object {
	// OpenShift schedules the pods of such a namespace onto the cores for its platform.
	annotations := map[string]string{operatorv1.AnnotationWorkloadAllowed: "management"}
	agents := render.Meta{
		Name:        AgentNamespace(klusterlet),
		Labels:      map[string]string{operatorv1.LabelKlusterlet: klusterlet.Name, operatorv1.LabelCreatedByKlusterlet: klusterlet.Name},
		Annotations: annotations,
	}
	addons := render.Meta{
		Name:        operatorv1.DefaultAddOnNamespace,
		Labels:      map[string]string{operatorv1.LabelAddOnNamespace: "true"},
		Annotations: annotations,
	}
	return []render.Object{render.Namespace(agents), render.Namespace(addons)}
}
