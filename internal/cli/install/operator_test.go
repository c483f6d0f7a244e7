// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// kustomizeVariable makes the executable of these tests kustomize, so that the
// script which make runs can be run without building that first.
const kustomizeVariable = "CAPSTAN_TEST_IS_KUSTOMIZE"

func TestMain(m *testing.M) {
	if os.Getenv(kustomizeVariable) == "" {
		os.Exit(m.Run())
	}
	if err := kustomize(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func kustomize(to io.Writer, args []string) error {
	if len(args) != 2 || args[0] != "build" {
		return fmt.Errorf("this kustomize can only build a directory, not %q", args)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), args[1])
	if err != nil {
		return err
	}
	text, err := resources.AsYaml()
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

func TestCommandsInstallWhatMakeInstalls(t *testing.T) {
	for name, c := range map[string]struct {
		operator Operator
		place    string
	}{
		"deploy-hub-operator":   {ClusterManagerOperator(), "hub"},
		"deploy-spoke-operator": {KlusterletOperator(), "spoke"},
		"deploy-hub-dedicated":  {ControlPlaneOperator(), "hub-dedicated"},
	} {
		t.Run(name, func(t *testing.T) {
			const image = "registry.example.com/some/capstan:9.8.7"
			objects, err := c.operator.RenderObjects(OperatorOptions{Image: image})
			if err != nil {
				t.Fatal(err)
			}
			script := exec.CommandContext(t.Context(), "../../../hack/deploy/operator.sh", c.place, "print")
			script.Env = append(os.Environ(), kustomizeVariable+"=yes", "IMAGE_NAME="+image, "KUSTOMIZE="+os.Args[0])
			script.Stderr = os.Stderr
			printed, err := script.Output()
			if err != nil {
				t.Fatalf("%v: %v", script.Args, err)
			}
			made, ours := byName(documents(t, printed)), byName(objects)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(ours))); diff != "" {
				t.Fatalf("the command line installs other objects than %q (-make +capstan):\n%s", "make "+name, diff)
			}
			for object := range ours {
				if diff := cmp.Diff(made[object], ours[object]); diff != "" {
					t.Errorf("%s is another one than that of %q (-make +capstan):\n%s", object, "make "+name, diff)
				}
			}
		})
	}
}

func documents(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := sigsyaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

func byName(objects []*unstructured.Unstructured) map[string]any {
	named := map[string]any{}
	for _, object := range objects {
		named[describeObject(object)] = object.Object
	}
	return named
}

func TestOptionsAreInTheDeploymentAndReadFromIt(t *testing.T) {
	want := OperatorOptions{Image: "example.com/i:1", Replicas: 3, ComponentReplicas: 2, InstalledBy: ByRegister}
	deployment := deploymentOf(t, ClusterManagerOperator(), want)
	if diff := cmp.Diff(want, OptionsOf(deployment)); diff != "" {
		t.Errorf("what was rendered is read as something else (-want +got):\n%s", diff)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if diff := cmp.Diff([]string{"/registration-operator", "hub", "--deployment-replicas=2"}, container.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if OptionsOf(deploymentOf(t, ClusterManagerOperator(), OperatorOptions{})).Image == "" {
		t.Error("without an option there is no image")
	}
	want.ComponentReplicas = 0
	if diff := cmp.Diff(want, OptionsOf(deploymentOf(t, KlusterletOperator(), OperatorOptions{Image: want.Image, Replicas: 3, ComponentReplicas: 2, InstalledBy: ByRegister}))); diff != "" {
		t.Errorf("the operator of a member got a flag that it does not know (-want +got):\n%s", diff)
	}
}

func deploymentOf(t *testing.T, operator Operator, options OperatorOptions) *appsv1.Deployment {
	t.Helper()
	objects, err := operator.RenderObjects(options)
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, deployment, true); err != nil {
			t.Fatal(err)
		}
	}
	return deployment
}

func TestInstancesHaveOnlyWhatIsSet(t *testing.T) {
	hub, err := ClusterManagerObject(ClusterManagerName, operatorv1.ClusterManagerSpec{
		RegistrationConfiguration: &operatorv1.RegistrationHubConfiguration{AutoApproveUsers: []string{"me"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	member, err := KlusterletObject("k", operatorv1.KlusterletSpec{
		ClusterName: "c", Namespace: "open-cluster-management-x", DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallModeSingleton},
	})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]any{"app.kubernetes.io/part-of": "capstan"}
	want := []any{
		map[string]any{
			"apiVersion": "operator.open-cluster-management.io/v1", "kind": "ClusterManager",
			"metadata": map[string]any{"name": "cluster-manager", "labels": labels},
			"spec":     map[string]any{"registrationConfiguration": map[string]any{"autoApproveUsers": []any{"me"}}},
		},
		map[string]any{
			"apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
			"metadata": map[string]any{"name": "k", "labels": labels},
			"spec":     map[string]any{"clusterName": "c", "namespace": "open-cluster-management-x", "deployOption": map[string]any{"mode": "Singleton"}},
		},
	}
	if diff := cmp.Diff(want, []any{hub.Object, member.Object}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnImageThatCannotBeOneIsRefused(t *testing.T) {
	for image, good := range map[string]bool{
		"": true, "capstan": true, "quay.io/capstan-io/capstan:0.1.0": true, "[::1]:5000/capstan@sha256:" + strings.Repeat("0", 64): true,
		":0.1.0": false, "my image": false, "-x": false, "/capstan": false, "capstan\n": false,
	} {
		_, err := KlusterletOperator().RenderObjects(OperatorOptions{Image: image})
		if good != (err == nil) || err != nil && exit.Code(err) != exit.Usage {
			t.Errorf("image %q: %v", image, err)
		}
	}
}
