// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	theirclusterv1 "open-cluster-management.io/api/cluster/v1"
	theirclusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	theirclusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	theirclusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	theiroperatorv1 "open-cluster-management.io/api/operator/v1"
	theirworkv1 "open-cluster-management.io/api/work/v1"
	theirworkv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
)

// TestMain keeps controller-runtime from writing that nobody set its log.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// kind is a kind of API object as they and we have it.
type kind struct {
	theirs, ours func() client.Object
	// definition is the file of their CustomResourceDefinition in their module.
	definition string
}

// kinds are all that we have. The test that our definitions are all covered
// keeps it complete.
func kinds() map[string]kind {
	return map[string]kind{
		"ClusterManager": {
			theirs:     func() client.Object { return &theiroperatorv1.ClusterManager{} },
			ours:       func() client.Object { return &operatorv1.ClusterManager{} },
			definition: "operator/v1/0000_01_operator.open-cluster-management.io_clustermanagers.crd.yaml",
		},
		"Klusterlet": {
			theirs:     func() client.Object { return &theiroperatorv1.Klusterlet{} },
			ours:       func() client.Object { return &operatorv1.Klusterlet{} },
			definition: "operator/v1/0000_00_operator.open-cluster-management.io_klusterlets.crd.yaml",
		},
		"ManagedCluster": {
			theirs:     func() client.Object { return &theirclusterv1.ManagedCluster{} },
			ours:       func() client.Object { return &clusterv1.ManagedCluster{} },
			definition: "cluster/v1/0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml",
		},
		"ManagedClusterSet": {
			theirs:     func() client.Object { return &theirclusterv1beta2.ManagedClusterSet{} },
			ours:       func() client.Object { return &clusterv1beta2.ManagedClusterSet{} },
			definition: "cluster/v1beta2/0000_00_clusters.open-cluster-management.io_managedclustersets.crd.yaml",
		},
		"ManagedClusterSetBinding": {
			theirs:     func() client.Object { return &theirclusterv1beta2.ManagedClusterSetBinding{} },
			ours:       func() client.Object { return &clusterv1beta2.ManagedClusterSetBinding{} },
			definition: "cluster/v1beta2/0000_01_clusters.open-cluster-management.io_managedclustersetbindings.crd.yaml",
		},
		"ClusterClaim": {
			theirs:     func() client.Object { return &theirclusterv1alpha1.ClusterClaim{} },
			ours:       func() client.Object { return &clusterv1alpha1.ClusterClaim{} },
			definition: "cluster/v1alpha1/0000_02_clusters.open-cluster-management.io_clusterclaims.crd.yaml",
		},
		"AddOnPlacementScore": {
			theirs:     func() client.Object { return &theirclusterv1alpha1.AddOnPlacementScore{} },
			ours:       func() client.Object { return &clusterv1alpha1.AddOnPlacementScore{} },
			definition: "cluster/v1alpha1/0000_05_clusters.open-cluster-management.io_addonplacementscores.crd.yaml",
		},
		"Placement": {
			theirs:     func() client.Object { return &theirclusterv1beta1.Placement{} },
			ours:       func() client.Object { return &clusterv1beta1.Placement{} },
			definition: "cluster/v1beta1/0000_02_clusters.open-cluster-management.io_placements.crd.yaml",
		},
		"PlacementDecision": {
			theirs:     func() client.Object { return &theirclusterv1beta1.PlacementDecision{} },
			ours:       func() client.Object { return &clusterv1beta1.PlacementDecision{} },
			definition: "cluster/v1beta1/0000_03_clusters.open-cluster-management.io_placementdecisions.crd.yaml",
		},
		"ManifestWork": {
			theirs:     func() client.Object { return &theirworkv1.ManifestWork{} },
			ours:       func() client.Object { return &workv1.ManifestWork{} },
			definition: "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml",
		},
		"ManifestWorkReplicaSet": {
			theirs:     func() client.Object { return &theirworkv1alpha1.ManifestWorkReplicaSet{} },
			ours:       func() client.Object { return &workv1alpha1.ManifestWorkReplicaSet{} },
			definition: "work/v1alpha1/0000_00_work.open-cluster-management.io_manifestworkreplicasets.crd.yaml",
		},
		"AppliedManifestWork": {
			theirs:     func() client.Object { return &theirworkv1.AppliedManifestWork{} },
			ours:       func() client.Object { return &workv1.AppliedManifestWork{} },
			definition: "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml",
		},
	}
}

// ourDefinitions returns our definitions by kind, without those of which they
// have nothing alike.
func ourDefinitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, load := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){config.HubCRDs, config.SpokeCRDs, config.OperatorCRDs} {
		loaded, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for _, definition := range loaded {
			if definition.Spec.Group != fleetv1alpha1.GroupName {
				definitions[definition.Spec.Names.Kind] = definition
			}
		}
	}
	return definitions
}

// theirDefinitions returns their definitions of the kinds that we have, by kind.
func theirDefinitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/api").Output()
	if err != nil {
		t.Fatalf("find their module: %v", err)
	}
	module := strings.TrimSpace(string(out))
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for name, kind := range kinds() {
		content, err := os.ReadFile(filepath.Join(module, kind.definition))
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err != nil {
			t.Fatalf("%s: %v", kind.definition, err)
		}
		definitions[name] = definition
	}
	return definitions
}

// sample returns an object of the kind that has every field, from testdata.
func sample(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", strings.ToLower(kind)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		t.Fatalf("testdata of %s: %v", kind, err)
	}
	return object
}

func TestEveryKindOfOursIsCompared(t *testing.T) {
	var defined, compared []string
	for name := range ourDefinitions(t) {
		defined = append(defined, name)
	}
	for name := range kinds() {
		compared = append(compared, name)
	}
	slices.Sort(defined)
	slices.Sort(compared)
	if !slices.Equal(defined, compared) {
		t.Errorf("config has definitions of %v, but the kinds that are compared are %v", defined, compared)
	}
}
