// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// TestTemplatesAreStoredAsTheyWereWritten creates an object of every native kind
// in an API server with the admission of a control plane, where others say what
// they say about pods elsewhere, and deletes it.
func TestTemplatesAreStoredAsTheyWereWritten(t *testing.T) {
	disabled := ""
	plane := manifests.Plane{Name: name, Namespace: home}
	plane.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1}
	deployment, _ := manifests.APIServerDeployment(plane).(*appsv1ac.DeploymentApplyConfiguration)
	for _, flag := range deployment.Spec.Template.Spec.Containers[0].Command {
		if value, found := strings.CutPrefix(flag, "--disable-admission-plugins="); found {
			disabled = value
		}
	}
	if disabled == "" {
		t.Fatal("the API server has no flag for its admission plugins")
	}
	_, admin := servers.Start(t, func(e *envtest.Environment) {
		e.ControlPlane.GetAPIServer().Configure().Set("disable-admission-plugins", disabled)
	})
	hub, err := client.New(admin, client.Options{})
	expect.NoError(t, err)
	templates := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "templates"}}
	expect.NoError(t, hub.Create(t.Context(), templates))
	file, err := os.Open("testdata/native.yaml")
	expect.NoError(t, err)
	defer func() { _ = file.Close() }()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		expect.NoError(t, err)
		objects = append(objects, object)
	}
	for _, object := range objects {
		written := object.DeepCopy()
		if err := hub.Create(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", written.GetKind(), written.GetName(), err)
			continue
		}
		unchanged(t, written, object)
		if object.GetKind() == "ResourceQuota" { // admission enforces it once it has a status
			quota := object.DeepCopy()
			hard, _, _ := unstructured.NestedMap(quota.Object, "spec", "hard")
			quota.Object["status"] = map[string]any{"hard": hard, "used": hard}
			expect.NoError(t, hub.Status().Update(t.Context(), quota))
		}
	}
	everyKindIsNative(t, discovery.NewDiscoveryClientForConfigOrDie(admin), objects)
	for _, object := range objects {
		if err := hub.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Errorf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	for _, object := range objects {
		var last error // some take a moment, such as definitions, whose objects go first
		if polling.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			last = hub.Get(ctx, client.ObjectKeyFromObject(object), object)
			return apierrors.IsNotFound(last) || finalized(object), nil
		}) != nil {
			t.Errorf("%s %s is still there: %v", object.GetKind(), object.GetName(), last)
		}
	}
}

// unchanged fails the test if what was stored lacks something that was written,
// or has what others would have written into it.
func unchanged(t *testing.T, written, stored *unstructured.Unstructured) {
	t.Helper()
	what := written.GetKind() + " " + written.GetName()
	want := written.DeepCopy().Object
	delete(want, "stringData") // stored as data
	expect.TreeKept(t, what+" as it was written", want, stored.Object)
	for _, path := range [][]string{
		{"metadata", "finalizers"},
		{"spec", "tolerations"},
		{"spec", "priority"},
		{"spec", "preemptionPolicy"},
		{"spec", "volumes"},
		{"spec", "overhead"},
		{"spec", "storageClassName"},
		{"spec", "ingressClassName"},
		{"spec", "taints"},
	} {
		if value, found, _ := unstructured.NestedFieldNoCopy(stored.Object, path...); found && !finalized(stored) {
			t.Errorf("%s: %s became %v", what, strings.Join(path, "."), value)
		}
	}
	containers, _, _ := unstructured.NestedSlice(stored.Object, "spec", "containers")
	before, _, _ := unstructured.NestedSlice(written.Object, "spec", "containers")
	for n := range containers {
		have, _, _ := unstructured.NestedMap(containers[n].(map[string]any), "resources", "limits")
		want, _, _ := unstructured.NestedMap(before[n].(map[string]any), "resources", "limits")
		if len(have) != len(want) {
			t.Errorf("%s: the limits of a container became %v", what, have)
		}
	}
}

// finalized reports whether the registry itself gives the object a finalizer that a
// controller takes off.
func finalized(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ServiceCIDR"
}

// everyKindIsNative fails the test if a kind of the API server that can be
// created and deleted is not among the objects.
func everyKindIsNative(t *testing.T, d discovery.DiscoveryInterface, objects []*unstructured.Unstructured) {
	t.Helper()
	tried := sets.New(schema.GroupKind{Kind: "Namespace"})
	for _, object := range objects {
		tried.Insert(object.GroupVersionKind().GroupKind())
	}
	lists, err := d.ServerPreferredResources()
	expect.NoError(t, err)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		expect.NoError(t, err)
		for _, resource := range list.APIResources {
			kind := schema.GroupKind{Group: version.Group, Kind: resource.Kind}
			if sets.New(resource.Verbs...).HasAll("create", "delete") && version.Group != "example.com" && !tried.Has(kind) {
				t.Errorf("testdata/native.yaml has no %s", kind)
			}
		}
	}
}
