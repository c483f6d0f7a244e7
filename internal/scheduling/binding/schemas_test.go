// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// TestListsOfABindingAreBounded keeps what a tenant may write into a binding to what the
// hub can go over.
func TestListsOfABindingAreBounded(t *testing.T) {
	definitions, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, definition := range definitions {
		if definition.Spec.Group != workv1alpha2.GroupName || !strings.HasSuffix(definition.Spec.Names.Kind, "ResourceBinding") {
			continue
		}
		found++
		for _, version := range definition.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			for path, want := range map[string]int64{
				"clusters": 10_000, "gracefulEvictionTasks": 10_000, "requiredBy": 10_000, "requiredBy.clusters": 10_000,
				"gracefulEvictionTasks.clustersBeforeFailover": 10_000, "components": 256, "clusters.components": 256,
				"replicaRequirements.nodeClaim.tolerations": 100, "components.replicaRequirements.nodeClaim.tolerations": 100,
				"placement.clusterTolerations": 100, "suspension.dispatchingOnClusters.clusterNames": 1000,
				"failover.application.statePreservation.rules": 100, "failover.cluster.statePreservation.rules": 100,
			} {
				if list := listAt(spec, path); list.MaxItems == nil || *list.MaxItems != want {
					t.Errorf("%s: spec.%s may have %v items, want at most %d", definition.Name, path, list.MaxItems, want)
				}
			}
			for _, path := range []string{"replicaRequirements.resourceRequest", "components.replicaRequirements.resourceRequest"} {
				if of := listAt(spec, path); of.MaxProperties == nil || *of.MaxProperties != view.RequestsMax {
					t.Errorf("%s: spec.%s may have %v resources, want at most %d", definition.Name, path, of.MaxProperties, view.RequestsMax)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d kinds of bindings were found, want 2", found)
	}
}

// listAt returns the schema of a list below that of an object, at a path of lists and objects.
func listAt(schema apiextensionsv1.JSONSchemaProps, path string) apiextensionsv1.JSONSchemaProps {
	field, rest, more := strings.Cut(path, ".")
	list := schema.Properties[field]
	if more && list.Items != nil && list.Items.Schema != nil {
		return listAt(*list.Items.Schema, rest)
	}
	if more {
		return listAt(list, rest)
	}
	return list
}
