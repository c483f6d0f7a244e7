// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operatorframework validates the OLM bundles of the operators as OLM's own tools do.
package operatorframework

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

// bundles are the directories in bundle/, with what must be in them.
func bundles() map[string]struct{ packageName, deployment, kind string } {
	return map[string]struct{ packageName, deployment, kind string }{
		"clustermanager": {"capstan-hub", "cluster-manager", "ClusterManager"},
		"klusterlet":     {"capstan-klusterlet", "klusterlet", "Klusterlet"},
	}
}

func TestBundlesPassTheValidationOfOLM(t *testing.T) {
	for directory := range bundles() {
		t.Run(directory, func(t *testing.T) {
			bundle, err := manifests.GetBundleFromDir(filepath.Join("..", "..", "..", "bundle", directory))
			if err != nil {
				t.Fatal(err)
			}
			objects := bundle.ObjectsToValidate()
			for _, object := range bundle.Objects {
				objects = append(objects, object)
			}
			var results []errors.ManifestResult
			for _, validator := range validators() {
				results = append(results, validator.Validate(objects...)...)
			}
			if len(results) == 0 {
				t.Fatal("nothing was validated")
			}
			for _, result := range results {
				for _, problem := range append(result.Errors, result.Warnings...) {
					if !expected(problem) {
						t.Errorf("%s: %s", result.Name, problem.Error())
					}
				}
			}
		})
	}
}

// validators are those of OLM that look at the bundle alone. The one for
// architectures pulls the image, which is not to be had in a test.
func validators() []interfaces.Validator {
	return []interfaces.Validator{
		validation.DefaultBundleValidators, validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator, validation.GoodPracticesValidator,
	}
}

// expected tells of warnings that are no mistakes: the operators do install
// CRDs, on purpose.
func expected(problem errors.Error) bool {
	return problem.Level == errors.LevelWarn && strings.Contains(problem.Detail, "CSV contains permissions to create CRD")
}

func TestBundlesHaveWhatOLMInstalls(t *testing.T) {
	for directory, want := range bundles() {
		t.Run(directory, func(t *testing.T) {
			bundle, err := manifests.GetBundleFromDir(filepath.Join("..", "..", "..", "bundle", directory))
			if err != nil {
				t.Fatal(err)
			}
			if bundle.Package != want.packageName {
				t.Errorf("got package %q, want %q", bundle.Package, want.packageName)
			}
			spec := bundle.CSV.Spec
			for _, mode := range spec.InstallModes {
				if supported := mode.Type != v1alpha1.InstallModeTypeMultiNamespace; mode.Supported != supported {
					t.Errorf("install mode %s: got supported %t, want %t", mode.Type, mode.Supported, supported)
				}
			}
			install := spec.InstallStrategy.StrategySpec
			if len(install.DeploymentSpecs) != 1 || install.DeploymentSpecs[0].Name != want.deployment {
				t.Errorf("got deployments %+v, want %s", install.DeploymentSpecs, want.deployment)
			}
			for _, permission := range append(install.ClusterPermissions, install.Permissions...) {
				if permission.ServiceAccountName != want.deployment {
					t.Errorf("got permissions for %q, want %q only", permission.ServiceAccountName, want.deployment)
				}
				for _, rule := range permission.Rules {
					if slices.Contains(slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups), "*") {
						t.Errorf("the rule %v has a wildcard", rule)
					}
				}
			}
			checkExamples(t, bundle.CSV, want.kind)
		})
	}
}

// checkExamples expects one object of the kind, which works as it is and whose
// components follow the operator when OLM upgrades it.
func checkExamples(t *testing.T, csv *v1alpha1.ClusterServiceVersion, kind string) {
	t.Helper()
	var examples []struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil || len(examples) != 1 {
		t.Fatalf("got examples %v, %v; want one", examples, err)
	}
	if examples[0].Kind != kind {
		t.Errorf("got an example of kind %q, want %q", examples[0].Kind, kind)
	}
	for field := range examples[0].Spec {
		if strings.Contains(strings.ToLower(field), "image") {
			t.Errorf("the example pins %s, so that an upgrade would leave the component behind", field)
		}
	}
}

func TestBundlesHaveWhatOperatorHubShows(t *testing.T) {
	for directory := range bundles() {
		t.Run(directory, func(t *testing.T) {
			bundle, err := manifests.GetBundleFromDir(filepath.Join("..", "..", "..", "bundle", directory))
			if err != nil {
				t.Fatal(err)
			}
			for _, annotation := range []string{
				"capabilities", "categories", "containerImage", "createdAt", "description", "repository", "support",
				"operatorframework.io/suggested-namespace", "operatorframework.io/suggested-namespace-template",
				"operatorframework.io/initialization-resource",
			} {
				if bundle.CSV.Annotations[annotation] == "" {
					t.Errorf("there is no annotation %s", annotation)
				}
			}
			for _, label := range []string{"operatorframework.io/arch.amd64", "operatorframework.io/arch.arm64", "operatorframework.io/os.linux"} {
				if bundle.CSV.Labels[label] != "supported" {
					t.Errorf("the label %s is %q, want supported", label, bundle.CSV.Labels[label])
				}
			}
			spec := bundle.CSV.Spec
			if len(spec.Icon) == 0 || len(spec.Links) == 0 || len(spec.Maintainers) == 0 || spec.MinKubeVersion == "" {
				t.Error("icon, links, maintainers or minKubeVersion are missing")
			}
			images := spec.RelatedImages
			container := spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
			if len(images) != 1 || images[0].Image != container.Image || bundle.CSV.Annotations["containerImage"] != container.Image {
				t.Errorf("got related images %v, want the operator's %s alone", images, container.Image)
			}
		})
	}
}
