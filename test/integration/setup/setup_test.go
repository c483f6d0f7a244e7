// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/test/integration/setup/harness"
)

// TestHubLife is the life of a hub as its administrator sees it, one command
// after the other.
func TestHubLife(t *testing.T) {
	c := harness.NewCluster(t, servers)
	before := c.ListEverything(t)

	t.Run("dry runs change nothing", func(t *testing.T) {
		testDryRuns(t, c)
		c.HasObjects(t, before)
	})
	t.Run("a cluster becomes a hub", func(t *testing.T) {
		code, out := c.RunCapstan(t, "init", "--image", "example.com/capstan:1", "--feature-gates", "StrictBootstrap=true")
		if code != exit.OK || !strings.Contains(out, "capstan token create --print-register-command") {
			t.Fatalf("exit code %d, or no next step", code)
		}
		c.HasComponents(t, "example.com/capstan:1")
	})
	t.Run("again, which changes nothing, and keeps the image", func(t *testing.T) {
		if code, _ := c.RunCapstan(t, "init", "--feature-gates", "StrictBootstrap=true"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		c.HasComponents(t, "example.com/capstan:1")
	})
	t.Run("of images that are named, those of the operator follow it", func(t *testing.T) {
		c.SetImages(t, "example.com/capstan:1", "example.com/chosen:1")
		if code, _ := c.RunCapstan(t, "upgrade", "--image", "example.com/capstan:1.5"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		cm := c.ReadHub(t)
		if cm.Spec.RegistrationImagePullSpec != "example.com/capstan:1.5" || cm.Spec.WorkImagePullSpec != "example.com/chosen:1" {
			t.Errorf("the images are %s and %s", cm.Spec.RegistrationImagePullSpec, cm.Spec.WorkImagePullSpec)
		}
		c.SetImages(t, "example.com/capstan:1.5", "example.com/capstan:1.5")
		c.IsRolledOut(t, "example.com/capstan:1.5")
	})
	t.Run("upgraded, all of it gets the new image", func(t *testing.T) {
		code, out := c.RunCapstan(t, "upgrade", "--image", "example.com/capstan:2")
		if code != exit.OK || !strings.Contains(out, "deployment.apps/cluster-manager-work-webhook: example.com/capstan:1.5 -> example.com/capstan:2") {
			t.Fatalf("exit code %d, or it is not said what has changed", code)
		}
		c.HasComponents(t, "example.com/capstan:2")
	})
	t.Run("removed, nothing of it is left", func(t *testing.T) {
		if code, _ := c.RunCapstan(t, "token", "create"); code != exit.OK {
			t.Fatalf("no token: exit code %d", code)
		}
		if code, _ := c.RunCapstan(t, "clean"); code != exit.OK {
			t.Fatalf("exit code %d", code)
		}
		c.HasObjects(t, before)
	})
	t.Run("removed again, there is nothing to do", func(t *testing.T) {
		code, out := c.RunCapstan(t, "clean")
		if code != exit.OK || !strings.Contains(out, "is not a hub") {
			t.Errorf("exit code %d, or it is not said", code)
		}
	})
	t.Run("what somebody else has installed stays", func(t *testing.T) { testStrangersStay(t, c) })
}

func testDryRuns(t *testing.T, c *harness.Cluster) {
	for _, mode := range []string{"client", "server"} {
		code, out := c.RunCapstan(t, "init", "--dry-run="+mode)
		if code != exit.OK || !strings.Contains(out, "deployment.apps/cluster-manager applied") {
			t.Errorf("a dry run by the %s ended with exit code %d and does not name the operator", mode, code)
		}
	}
}

// testStrangersStay runs the commands where somebody else has installed an operator
// of the same name.
func testStrangersStay(t *testing.T, c *harness.Cluster) {
	objects, err := install.ClusterManagerOperator().RenderObjects(install.OperatorOptions{Image: "quay.io/other/operator:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		object.SetLabels(map[string]string{"app": "cluster-manager"})
		if err := c.Client.Create(t.Context(), object, client.FieldOwner("helm")); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"init", "upgrade", "clean"} {
		code, out := c.RunCapstan(t, command)
		if code != exit.Failed || !strings.Contains(out, "quay.io/other/operator:1 already, which Capstan has not installed") {
			t.Errorf("%s does not refuse: exit code %d", command, code)
		}
	}
}
