// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestSchemasAreTheSame(t *testing.T) {
	theirs, ours := theirDefinitions(t), ourDefinitions(t)
	const quantity = "a quantity such as 1e-2000000000 takes whoever parses it hours; the number of digits is bounded"
	allowed := map[string]string{
		"ManagedCluster.status.allocatable{}: pattern":                                     quantity,
		"ManagedCluster.status.capacity{}: pattern":                                        quantity,
		"Klusterlet.spec.resourceRequirement.resourceRequirements.limits{}: pattern":       quantity,
		"Klusterlet.spec.resourceRequirement.resourceRequirements.requests{}: pattern":     quantity,
		"ClusterManager.spec.resourceRequirement.resourceRequirements.limits{}: pattern":   quantity,
		"ClusterManager.spec.resourceRequirement.resourceRequirements.requests{}: pattern": quantity,

		"ManifestWork.status.resourceStatus.manifests[].statusFeedback.values[].fieldValue.jsonRaw: maxLength": "a work of a binding reports the whole status of its object, which the hub sums up; what a feedback rule reads keeps their limit, in the agent",
		"ManifestWork.status.resourceStatus.manifests[].statusFeedback.values[].fieldValue.string: maxLength":  "a text of megabytes takes an API server a hundred before it is refused; agents report 128 KiB of an object",
	}
	seen := map[string]bool{}
	for name := range kinds() {
		t.Run(name, func(t *testing.T) {
			if len(theirs[name].Spec.Versions) != 1 || len(ours[name].Spec.Versions) != 1 {
				t.Fatalf("want one version on both sides: theirs %d, ours %d", len(theirs[name].Spec.Versions), len(ours[name].Spec.Versions))
			}
			found := map[string]string{}
			differences(name, theirs[name].Spec.Versions[0].Schema.OpenAPIV3Schema, ours[name].Spec.Versions[0].Schema.OpenAPIV3Schema, found)
			for _, place := range slices.Sorted(maps.Keys(found)) {
				seen[place] = true
				if allowed[place] == "" {
					t.Errorf("%s (-theirs +ours):\n%s", place, found[place])
				}
			}
		})
	}
	for place := range allowed {
		if !seen[place] {
			t.Errorf("%s is allowed to differ but does not: remove it", place)
		}
	}
}

func TestDefinitionsAreTheSameOutsideOfTheSchemas(t *testing.T) {
	theirs, ours := theirDefinitions(t), ourDefinitions(t)
	// These are the columns that "kubectl get" prints of kinds of which
	// theirs has none but the age. Clients do not read columns; people do.
	further := map[string][]string{
		"ManifestWork":        {"Applied", "Available", "Reason", "Degraded", "Complete", "Age"},
		"AppliedManifestWork": {"Work", "Evicting", "Agent", "Age"},
		"Klusterlet":          {"Cluster", "Applied", "Available", "Joined", "Reason", "Mode", "Age"},
		"ClusterManager":      {"Applied", "Progressing", "Degraded", "Reason", "Mode", "Age"},
	}
	for name := range kinds() {
		t.Run(name, func(t *testing.T) {
			if len(further[name]) > 0 {
				if columns := theirs[name].Spec.Versions[0].AdditionalPrinterColumns; len(columns) > 0 {
					t.Fatalf("their definition has columns now, which ours has to have: %v", columns)
				}
				var names []string
				for _, column := range ours[name].Spec.Versions[0].AdditionalPrinterColumns {
					names = append(names, column.Name)
				}
				if diff := cmp.Diff(further[name], names); diff != "" {
					t.Errorf("columns (-want +got):\n%s", diff)
				}
				theirs[name].Spec.Versions[0].AdditionalPrinterColumns = ours[name].Spec.Versions[0].AdditionalPrinterColumns
			}
			if diff := cmp.Diff(outsideOfSchema(theirs[name]), outsideOfSchema(ours[name])); diff != "" {
				t.Errorf("(-theirs +ours):\n%s", diff)
			}
		})
	}
}

// outsideOfSchema returns what a definition says besides its schemas: group,
// scope, names, versions, subresources and printer columns.
func outsideOfSchema(definition *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionSpec {
	spec := definition.DeepCopy().Spec
	spec.PreserveUnknownFields = false // both: the same as absent
	for i := range spec.Versions {
		spec.Versions[i].Schema = nil
		for j := range spec.Versions[i].AdditionalPrinterColumns {
			spec.Versions[i].AdditionalPrinterColumns[j].Description = ""
		}
	}
	return spec
}

// differences collects where two schemas differ, other than by descriptions.
// A place is a path such as Klusterlet.spec.nodePlacement, a colon, and the
// keyword of the schema, such as maxLength.
func differences(path string, theirs, ours *apiextensionsv1.JSONSchemaProps, found map[string]string) {
	if theirs == nil || ours == nil {
		if theirs != ours {
			found[path+": existence"] = cmp.Diff(theirs, ours)
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(union(theirs.Properties, ours.Properties))) {
		differences(path+"."+name, property(theirs.Properties, name), property(ours.Properties, name), found)
	}
	differences(path+"[]", items(theirs), items(ours), found)
	differences(path+"{}", values(theirs), values(ours), found)

	left, right := keywords(readByClients(theirs)), keywords(ours)
	for i := range left.NumField() {
		field := left.Type().Field(i)
		if diff := cmp.Diff(left.Field(i).Interface(), right.Field(i).Interface()); diff != "" {
			keyword, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found[path+": "+keyword] = diff
		}
	}
}

// readByClients is a schema that takes of times and of numbers that may be texts only what clients of Go read: those of
// Open Cluster Management cannot list a kind either of which one object has another.
func readByClients(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	read := schema.DeepCopy()
	switch {
	case read.Format == "date-time":
		read.Pattern = `^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
		longest := int64(40)
		read.MaxLength = &longest
	case read.XIntOrString && !strings.HasPrefix(read.Pattern, `^(\+|-)?`): // which is a quantity
		most, least := float64(math.MaxInt32), float64(math.MinInt32)
		read.Maximum, read.Minimum = &most, &least
	}
	return read
}

// keywords is the schema without descriptions and the schemas of its parts.
func keywords(schema *apiextensionsv1.JSONSchemaProps) reflect.Value {
	own := schema.DeepCopy()
	own.Description = ""
	own.Properties, own.Items, own.AdditionalProperties = nil, nil, nil
	slices.Sort(own.Required)
	return reflect.ValueOf(*own)
}

func union(a, b map[string]apiextensionsv1.JSONSchemaProps) map[string]struct{} {
	names := map[string]struct{}{}
	for name := range a {
		names[name] = struct{}{}
	}
	for name := range b {
		names[name] = struct{}{}
	}
	return names
}

func property(properties map[string]apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if schema, ok := properties[name]; ok {
		return &schema
	}
	return nil
}

func items(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

func values(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.AdditionalProperties == nil {
		return nil
	}
	return schema.AdditionalProperties.Schema
}
