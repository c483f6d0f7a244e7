// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/grades"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// stored is what those who read the ClusterConnection of a Cluster make of it: how the hub
// connects to the cluster, where policies find it, and of which grades its nodes are.
type stored struct {
	Mode             view.Mode
	Endpoint         dial.Endpoint
	Secret           string
	Provider, Region string
	Zones            []string
	Nodes            string // "grade:count"
}

// storedOf stores a Cluster, whose agent has reported nothing yet. Its nodes have two and
// eight CPUs left.
func storedOf(t *testing.T, spec v1alpha1.ClusterSpec) stored {
	t.Helper()
	connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
		c.Spec, c.Cluster.Taints = fleetv1alpha1.ClusterConnectionSpec{}, nil
	})
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: spec}
	translate.NormalizeZones(cluster)
	if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
		t.Fatal(err)
	}
	seen := view.FromCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, connection)
	result := stored{
		Mode: seen.Mode, Endpoint: dial.EndpointOf(&connection.Spec, nil), Provider: seen.Provider, Region: seen.Region, Zones: seen.Zones,
	}
	if connection.Spec.SecretRef != nil {
		result.Secret = connection.Spec.SecretRef.Name
	}
	for _, counted := range grades.CountNodes(grades.ModelsOf(&connection.Spec), []map[string]resource.Quantity{
		{"cpu": resource.MustParse("2")}, {"cpu": resource.MustParse("8")},
	}) {
		if counted.Count > 0 {
			result.Nodes += fmt.Sprintf("%d:%d ", counted.Grade, counted.Count)
		}
	}
	return result
}

// Each field of a spec does something for those who read what is stored: without it, they
// read something else.
func TestFields(t *testing.T) {
	const models = `{syncMode: Push, resourceModels: [{grade: 0, ranges: [{name: cpu, min: "0", max: "4"}]}, {grade: 3, ranges: [{name: cpu, min: "4", max: "9223372036854775807"}]}]}`
	push := func(change func(*stored)) stored {
		s := stored{Mode: view.Push}
		change(&s)
		return s
	}
	graded := push(func(s *stored) { s.Nodes = "0:1 3:1 " })
	for name, tc := range map[string]struct {
		field, spec string
		want        stored
	}{
		"mode":     {"syncMode", "{syncMode: Push}", push(func(*stored) {})},
		"endpoint": {"apiEndpoint", "{syncMode: Push, apiEndpoint: 'https://member:6443'}", push(func(s *stored) { s.Endpoint.URL = "https://member:6443" })},
		"proxy":    {"proxyURL", "{syncMode: Push, proxyURL: 'http://proxy'}", push(func(s *stored) { s.Endpoint.Proxy = "http://proxy" })},
		"headers":  {"proxyHeader", "{syncMode: Push, proxyHeader: {a: b}}", push(func(s *stored) { s.Endpoint.ProxyHeader = map[string]string{"a": "b"} })},
		"insecure": {"insecureSkipTLSVerification", "{syncMode: Push, insecureSkipTLSVerification: true}", push(func(s *stored) { s.Endpoint.Insecure = true })},
		"secret":   {"secretRef.name", "{syncMode: Push, secretRef: {namespace: one, name: own}}", push(func(s *stored) { s.Secret = "own" })},
		"provider": {"provider", "{syncMode: Push, provider: acme}", push(func(s *stored) { s.Provider = "acme" })},
		"region":   {"region", "{syncMode: Push, region: eu}", push(func(s *stored) { s.Region = "eu" })},
		"zone":     {"zone", "{syncMode: Push, zone: eu-1}", push(func(s *stored) { s.Zones = []string{"eu-1"} })},
		"zones":    {"zones", "{syncMode: Push, zones: [eu-1, eu-2]}", push(func(s *stored) { s.Zones = []string{"eu-1", "eu-2"} })},
		"grade":    {"resourceModels[1].grade", models, graded},
		"resource": {"resourceModels[1].ranges[0].name", models, graded},
		"least":    {"resourceModels[1].ranges[0].min", models, graded},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, storedOf(t, specs.ParseSpec[v1alpha1.ClusterSpec](t, tc.spec))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if cmp.Equal(tc.want, storedOf(t, specs.ParseWithout[v1alpha1.ClusterSpec](t, tc.spec, tc.field))) {
				t.Errorf("without spec.%s the same is stored", tc.field)
			}
		})
	}
}
