// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config contains the manifests that the operators install, which are
// generated (the CustomResourceDefinitions of our kinds and the rules of each
// component), and those that install the operators. They are part of the
// executables, so that a release cannot be installed with the manifests of
// another one.
package config

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

//go:embed crd rbac operator
var manifests embed.FS

// The components that have rules of their own; see config/rbac/README.md.
const (
	ClusterManager         = "cluster-manager"
	Klusterlet             = "klusterlet"
	ControlPlane           = "control-plane"
	RegistrationController = "registration-controller"
	RegistrationWebhook    = "registration-webhook"
	WorkWebhook            = "work-webhook"
	WorkController         = "work-controller"
	PlacementController    = "placement-controller"
	PropagationController  = "propagation-controller"
	APIServer              = "apiserver"
	PushAgent              = "push-agent"
	RegistrationAgent      = "registration-agent"
	WorkAgent              = "work-agent"
)

// HubCRDs returns the definitions that the cluster-manager operator installs on
// a hub, each a new copy.
func HubCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions(
		"cluster.open-cluster-management.io_addonplacementscores",
		"cluster.open-cluster-management.io_managedclusters",
		"cluster.open-cluster-management.io_managedclustersetbindings",
		"cluster.open-cluster-management.io_managedclustersets",
		"cluster.open-cluster-management.io_placementdecisions",
		"cluster.open-cluster-management.io_placements",
		"fleet.capstan.io_clusterconnections",
		"work.open-cluster-management.io_manifestworkreplicasets",
		"work.open-cluster-management.io_manifestworks",
	)
}

// PropagationCRDs returns the definitions that the cluster-manager operator
// installs on a hub with feature gate Propagation, each a new copy. Most are the
// API of Karmada, which may be installed on the same cluster.
func PropagationCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions(
		"apps.karmada.io_workloadrebalancers",
		"config.karmada.io_resourceinterpretercustomizations",
		"config.karmada.io_resourceinterpreterwebhookconfigurations",
		"fleet.capstan.io_clusterpropagationrollouts",
		"fleet.capstan.io_propagationrevisions",
		"fleet.capstan.io_propagationrollouts",
		"policy.karmada.io_clusteroverridepolicies",
		"policy.karmada.io_clusterpropagationpolicies",
		"policy.karmada.io_overridepolicies",
		"policy.karmada.io_propagationpolicies",
		"work.karmada.io_clusterresourcebindings",
		"work.karmada.io_resourcebindings",
	)
}

// SpokeCRDs returns the definitions that the klusterlet operator installs on a
// member, each a new copy.
func SpokeCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions(
		"cluster.open-cluster-management.io_clusterclaims",
		"work.open-cluster-management.io_appliedmanifestworks",
	)
}

// PropertyCRDs returns the definition that the klusterlet operator installs on a
// member with feature gate ClusterProperty, a new copy. It is an API of SIG
// Multicluster, which others may have installed.
func PropertyCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions("about.k8s.io_clusterproperties")
}

// OperatorCRDs returns the definitions that are installed together with the
// operators: that of ClusterManager, then that of Klusterlet. Each is a new copy.
func OperatorCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions(
		"operator.open-cluster-management.io_clustermanagers",
		"operator.open-cluster-management.io_klusterlets",
	)
}

// ControlPlaneCRDs returns the definition that is installed together with the
// operator of dedicated hubs, a new copy.
func ControlPlaneCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions("fleet.capstan.io_controlplanes")
}

func definitions(names ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		file := path.Join("crd", name+".yaml")
		content, err := manifests.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read embedded definition: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := sigsyaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("decode embedded definition %s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// Rules returns the rules that a component needs: those for all namespaces (and
// for objects without one), and those for single namespaces. Which namespace the
// latter are for is up to the operator that installs the component; the one that
// a marker names counts for the installation of the operators only.
func Rules(component string) (cluster, namespaced []rbacv1.PolicyRule, err error) {
	file := path.Join("rbac", component, "role.yaml")
	content, err := manifests.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no rules of component %q are embedded; 'make generate' makes them from its markers", component)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read embedded rules: %w", err)
	}
	cluster, namespaced, err = parseRules(content)
	if err != nil {
		return nil, nil, fmt.Errorf("decode embedded rules %s: %w", file, err)
	}
	return cluster, namespaced, nil
}

// parseRules takes the rules out of documents of kind ClusterRole and Role.
func parseRules(content []byte) (cluster, namespaced []rbacv1.PolicyRule, err error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return cluster, namespaced, nil
		}
		if err != nil {
			return nil, nil, err
		}
		role := &rbacv1.ClusterRole{} // Role has the same fields
		if err := sigsyaml.Unmarshal(document, role); err != nil {
			return nil, nil, err
		}
		switch role.Kind {
		case "ClusterRole":
			cluster = append(cluster, role.Rules...)
		case "Role":
			namespaced = append(namespaced, role.Rules...)
		case "": // a document without content
		default:
			return nil, nil, fmt.Errorf("unexpected kind %q, want ClusterRole or Role", role.Kind)
		}
	}
}
