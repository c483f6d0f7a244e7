// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a cluster on which capstan sets up a hub: its nodes and controllers are
// played, and the pod of the operator is the operator, in this process.
package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// ReadHub returns the ClusterManager.
func (c *Cluster) ReadHub(t testing.TB) *operatorv1.ClusterManager {
	t.Helper()
	cm := &operatorv1.ClusterManager{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: install.ClusterManagerName}, cm); err != nil {
		t.Fatal(err)
	}
	return cm
}

// SetImages names the images of two components, as make deploy-hub does.
func (c *Cluster) SetImages(t testing.TB, registration, work string) {
	t.Helper()
	cm := c.ReadHub(t)
	before := cm.DeepCopy()
	cm.Spec.RegistrationImagePullSpec, cm.Spec.WorkImagePullSpec = registration, work
	if err := c.Client.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// ListEverything returns the names of all objects that a hub could leave.
func (c *Cluster) ListEverything(t testing.TB) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, kind := range []schema.GroupVersionKind{
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		{Version: "v1", Kind: "Namespace"},
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.Client.List(context.WithoutCancel(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			switch namespace := list.Items[i].Namespace; {
			case namespace == "default": // the API server's own
				continue
			case namespace == "open-cluster-management-hub" && (kind.Kind == "Secret" || kind.Kind == "ConfigMap"):
				continue // goes with its namespace, which only a controller manager empties
			}
			names[kind.Kind+" "+client.ObjectKeyFromObject(&list.Items[i]).String()] = true
		}
	}
	return names
}

// HasObjects tells what is there and was not before.
func (c *Cluster) HasObjects(t testing.TB, before map[string]bool) {
	t.Helper()
	for name := range c.ListEverything(t) {
		if !before[name] && !strings.HasPrefix(name, "ClusterRole /system:") && !strings.HasPrefix(name, "ClusterRoleBinding /system:") {
			t.Errorf("%s is left", name)
		}
	}
}

// HasComponents checks that all components of the hub have the image.
func (c *Cluster) HasComponents(t testing.TB, image string) {
	t.Helper()
	if others := c.withOtherImages(t.Context(), t, image); len(others) > 0 {
		t.Errorf("%s, want %s", strings.Join(others, ", "), image)
	}
}

// IsRolledOut waits until all components of the hub have the image.
func (c *Cluster) IsRolledOut(t testing.TB, image string) {
	t.Helper()
	var others []string
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		others = c.withOtherImages(ctx, t, image)
		return len(others) == 0, nil
	})
	if err != nil {
		t.Fatalf("%s, want %s: %v", strings.Join(others, ", "), image, err)
	}
}

// withOtherImages names the components of the hub with an image other than this.
func (c *Cluster) withOtherImages(ctx context.Context, t testing.TB, image string) []string {
	t.Helper()
	components, err := install.ClusterManagerOperator().ListComponents(ctx, c.Client)
	if err != nil || len(components) == 0 {
		t.Fatalf("the hub has no components: %v", err)
	}
	var others []string
	for _, component := range components {
		if component.Image != image {
			others = append(others, fmt.Sprintf("%s has the image %s", component.Key, component.Image))
		}
	}
	return others
}
