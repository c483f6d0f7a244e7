// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

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
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// TestHubLife is the life of a hub as its administrator sees it, one command
// after the other.
func TestHubLife(t *testing.T) {
	c := newCluster(t)
	before := c.everything(t)

	t.Run("dry runs change nothing", func(t *testing.T) {
		c.dryRuns(t)
		c.has(t, before)
	})
	t.Run("a cluster becomes a hub", func(t *testing.T) {
		code, out := c.capstan(t, "init", "--image", "example.com/capstan:1", "--feature-gates", "StrictBootstrap=true")
		if code != exit.OK || !strings.Contains(out, "capstan token create --print-register-command") {
			t.Fatalf("exit code %d, or no next step", code)
		}
		c.components(t, "example.com/capstan:1")
	})
	t.Run("again, which changes nothing, and keeps the image", func(t *testing.T) {
		if code, _ := c.capstan(t, "init", "--feature-gates", "StrictBootstrap=true"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		c.components(t, "example.com/capstan:1")
	})
	t.Run("of images that are named, those of the operator follow it", func(t *testing.T) {
		c.setImages(t, "example.com/capstan:1", "example.com/chosen:1")
		if code, _ := c.capstan(t, "upgrade", "--image", "example.com/capstan:1.5"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		cm := c.hub(t)
		if cm.Spec.RegistrationImagePullSpec != "example.com/capstan:1.5" || cm.Spec.WorkImagePullSpec != "example.com/chosen:1" {
			t.Errorf("the images are %s and %s", cm.Spec.RegistrationImagePullSpec, cm.Spec.WorkImagePullSpec)
		}
		c.setImages(t, "example.com/capstan:1.5", "example.com/capstan:1.5")
		c.rolledOut(t, "example.com/capstan:1.5")
	})
	t.Run("upgraded, all of it gets the new image", func(t *testing.T) {
		code, out := c.capstan(t, "upgrade", "--image", "example.com/capstan:2")
		if code != exit.OK || !strings.Contains(out, "deployment.apps/cluster-manager-work-webhook: example.com/capstan:1.5 -> example.com/capstan:2") {
			t.Fatalf("exit code %d, or it is not said what has changed", code)
		}
		c.components(t, "example.com/capstan:2")
	})
	t.Run("removed, nothing of it is left", func(t *testing.T) {
		if code, _ := c.capstan(t, "token", "create"); code != exit.OK {
			t.Fatalf("no token: exit code %d", code)
		}
		if code, _ := c.capstan(t, "clean"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		c.has(t, before)
	})
	t.Run("removed again, there is nothing to do", func(t *testing.T) {
		code, out := c.capstan(t, "clean")
		if code != exit.OK || !strings.Contains(out, "is not a hub") {
			t.Errorf("exit code %d, or it is not said", code)
		}
	})
	t.Run("what somebody else has installed stays", c.strangersStay)
}

func (c *cluster) dryRuns(t *testing.T) {
	for _, mode := range []string{"client", "server"} {
		code, out := c.capstan(t, "init", "--dry-run="+mode)
		if code != exit.OK || !strings.Contains(out, "deployment.apps/cluster-manager applied") {
			t.Errorf("a dry run by the %s ended with exit code %d and does not name the operator", mode, code)
		}
	}
}

// strangersStay runs the commands where somebody else has installed an operator
// of the same name.
func (c *cluster) strangersStay(t *testing.T) {
	objects, err := install.ClusterManagerOperator().RenderObjects(install.OperatorOptions{Image: "quay.io/other/operator:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		object.SetLabels(map[string]string{"app": "cluster-manager"})
		if err := c.client.Create(t.Context(), object, client.FieldOwner("helm")); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"init", "upgrade", "clean"} {
		code, out := c.capstan(t, command)
		if code != exit.Failed || !strings.Contains(out, "quay.io/other/operator:1 already, which Capstan has not installed") {
			t.Errorf("%s does not refuse: exit code %d", command, code)
		}
	}
}

func (c *cluster) hub(t *testing.T) *operatorv1.ClusterManager {
	t.Helper()
	cm := &operatorv1.ClusterManager{}
	if err := c.client.Get(t.Context(), client.ObjectKey{Name: install.ClusterManagerName}, cm); err != nil {
		t.Fatal(err)
	}
	return cm
}

// setImages names the images of two components, as make deploy-hub does.
func (c *cluster) setImages(t *testing.T, registration, work string) {
	t.Helper()
	cm := c.hub(t)
	before := cm.DeepCopy()
	cm.Spec.RegistrationImagePullSpec, cm.Spec.WorkImagePullSpec = registration, work
	if err := c.client.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// everything returns the names of all objects that a hub could leave.
func (c *cluster) everything(t *testing.T) map[string]bool {
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
		if err := c.client.List(context.WithoutCancel(t.Context()), list); err != nil {
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

// has tells what is there and was not before.
func (c *cluster) has(t *testing.T, before map[string]bool) {
	t.Helper()
	for name := range c.everything(t) {
		if !before[name] && !strings.HasPrefix(name, "ClusterRole /system:") && !strings.HasPrefix(name, "ClusterRoleBinding /system:") {
			t.Errorf("%s is left", name)
		}
	}
}

// components checks that all components of the hub have the image.
func (c *cluster) components(t *testing.T, image string) {
	t.Helper()
	if others := c.withOtherImages(t.Context(), t, image); len(others) > 0 {
		t.Errorf("%s, want %s", strings.Join(others, ", "), image)
	}
}

// rolledOut waits until all components of the hub have the image.
func (c *cluster) rolledOut(t *testing.T, image string) {
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
func (c *cluster) withOtherImages(ctx context.Context, t *testing.T, image string) []string {
	t.Helper()
	components, err := install.ClusterManagerOperator().ListComponents(ctx, c.client)
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
