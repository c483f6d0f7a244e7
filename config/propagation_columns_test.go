// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestHowKubectlShowsPropagation keeps what people and their scripts know: short
// names, the category, and the columns besides NAME. Without columns AGE is shown.
func TestHowKubectlShowsPropagation(t *testing.T) {
	definitions, err := PropagationCRDs()
	expect.NoError(t, err)
	got := map[string]string{}
	for _, d := range definitions {
		var columns []string
		for _, version := range d.Spec.Versions {
			for _, column := range version.AdditionalPrinterColumns {
				if version.Storage && column.Priority == 0 {
					columns = append(columns, strings.ToUpper(column.Name))
				}
			}
		}
		categories := []string{"karmada-io"}
		if d.Spec.Names.Kind == "WorkloadRebalancer" || d.Spec.Group == fleetv1alpha1.GroupName {
			categories = nil
		}
		if !slices.Equal(d.Spec.Names.Categories, categories) {
			t.Errorf("%s is in the categories %v", d.Name, d.Spec.Names.Categories)
		}
		names := d.Spec.Names.ShortNames
		if len(names) == 0 {
			names = []string{d.Spec.Names.Plural}
		}
		got[strings.Join(names, ",")] = string(d.Spec.Scope) + " " + d.Spec.Names.Kind + " " + strings.Join(columns, " ")
	}
	want := map[string]string{
		"workloadrebalancers":                      "Cluster WorkloadRebalancer AGE",
		"resourceinterpreterwebhookconfigurations": "Cluster ResourceInterpreterWebhookConfiguration AGE",
		"pro":  "Namespaced PropagationRollout STAGE CLUSTERS UPDATED HEALTHY FAILED COMPLETE REASON AGE",
		"cpro": "Cluster ClusterPropagationRollout STAGE CLUSTERS UPDATED HEALTHY FAILED COMPLETE REASON AGE",
		"prv":  "Cluster PropagationRevision NAMESPACE BINDING REVISION AGE",
		"pp":   "Namespaced PropagationPolicy CONFLICT-RESOLUTION PRIORITY AGE",
		"cpp":  "Cluster ClusterPropagationPolicy CONFLICT-RESOLUTION PRIORITY AGE",
		"op":   "Namespaced OverridePolicy ",
		"cop":  "Cluster ClusterOverridePolicy ",
		"rb":   "Namespaced ResourceBinding SCHEDULED FULLYAPPLIED AGE",
		"ric":  "Cluster ResourceInterpreterCustomization TARGET-API-VERSION TARGET-KIND AGE",
		"crb":  "Cluster ClusterResourceBinding SCHEDULED FULLYAPPLIED AGE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
