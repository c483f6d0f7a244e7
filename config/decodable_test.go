// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestDefinitionsTakeNothingThatClientsCannotRead goes through all fields whose Go types read less than what API servers take
// for their schemas. One object with such a value keeps every client from reading any object of its kind: a list is
// decoded as a whole.
func TestDefinitionsTakeNothingThatClientsCannotRead(t *testing.T) {
	files, err := manifests.ReadDir("crd")
	expect.NoError(t, err)
	dates, numbers := 0, 0
	for _, file := range files {
		text, err := manifests.ReadFile("crd/" + file.Name())
		expect.NoError(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		expect.NoError(t, sigsyaml.UnmarshalStrict(text, definition))
		for _, version := range definition.Spec.Versions {
			kind := definition.Spec.Names.Kind + "." + version.Name
			walkSchema(kind, version.Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				switch {
				case schema.Format == "date-time":
					dates++
					if schema.MaxLength == nil || *schema.MaxLength > 40 || !strings.HasPrefix(schema.Pattern, "^[12][0-9]{3}-") {
						t.Errorf("%s: a time has no bound or no pattern: see generate-crd", path)
					}
				case schema.XIntOrString && !strings.HasPrefix(schema.Pattern, "^[+-]?([0-9]{1,40}"): // which is a quantity
					numbers++
					if schema.Maximum == nil || *schema.Maximum != math.MaxInt32 || schema.Minimum == nil || *schema.Minimum != math.MinInt32 {
						t.Errorf("%s: a number or text takes numbers beyond those of 32 bits", path)
					}
				}
			})
		}
	}
	if dates == 0 || numbers == 0 {
		t.Errorf("there are %d times and %d numbers or texts", dates, numbers)
	}
}

// walkSchema calls do for a schema and all that are in it.
func walkSchema(path string, schema *apiextensionsv1.JSONSchemaProps, do func(path string, schema *apiextensionsv1.JSONSchemaProps)) {
	do(path, schema)
	for name := range schema.Properties {
		inner := schema.Properties[name]
		walkSchema(path+"."+name, &inner, do)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walkSchema(path+"[]", schema.Items.Schema, do)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walkSchema(path+"{}", schema.AdditionalProperties.Schema, do)
	}
}

// TestWhatClientsCannotReadIsRefused has an API server tell of values that it would take by the formats alone.
func TestWhatClientsCannotReadIsRefused(t *testing.T) {
	hub, err := client.New(startHub(t), client.Options{})
	expect.NoError(t, err)
	const meta = "metadata: {name: a, namespace: default}\n"
	binding := func(value string) string {
		return "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n" + meta +
			fmt.Sprintf("spec: {resource: {apiVersion: v1, kind: ConfigMap, namespace: default, name: a}, rescheduleTriggeredAt: %q}", value)
	}
	placement := func(value string) string {
		return "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n" + meta +
			fmt.Sprintf("spec: {decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: %s}}}", value)
	}
	rollout := func(value string) string {
		return "apiVersion: fleet.capstan.io/v1alpha1\nkind: PropagationRollout\n" + meta +
			fmt.Sprintf("spec: {policy: {name: web}, maxConcurrency: %s}", value)
	}
	set := func(value string) string {
		return "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\n" + meta +
			fmt.Sprintf("spec: {manifestWorkTemplate: {}, placementRefs: [{name: a, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: %s}}}]}", value)
	}
	for object, values := range map[*func(string) string]struct{ read, unread []string }{
		&binding: {
			[]string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+05:30", "2026-12-31T23:59:59-11:00"},
			[]string{
				"2026-01-01t00:00:00z", "2026-01-01T00:00:00Zt and so on", "2026-01-01T00:00:00x1Z", "2026-01-01T00:00:00+99:99",
				"9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00." + strings.Repeat("0", 100_000) + "Z",
			},
		},
		&placement: {[]string{"3", "10%", "2147483647"}, []string{"2147483648", "3000000000", "3e9", "9223372036854775807"}},
		&rollout:   {[]string{"3", "10%", "2147483647"}, []string{"2147483648", "3000000000", "3e9", "9223372036854775807"}},
		&set:       {[]string{"3", "10%", "2147483647"}, []string{"2147483648", "3000000000", "3e9", "9223372036854775807"}},
	} {
		try := func(value string) error {
			parsed := &unstructured.Unstructured{}
			expect.NoError(t, sigsyaml.Unmarshal([]byte((*object)(value)), &parsed.Object))
			return hub.Create(t.Context(), parsed, client.DryRunAll)
		}
		for _, value := range values.read {
			if err := try(value); err != nil {
				t.Errorf("%.40s is refused: %v", value, err)
			}
		}
		for _, value := range values.unread {
			if err := try(value); !apierrors.IsInvalid(err) {
				t.Errorf("%.40s: got %v, want a refusal", value, err)
			}
		}
	}
}
