// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	controlplane "github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// mounted is what the paths of files in the pods of a dedicated hub begin with.
const mounted = "/etc/capstan"

// plane is the ControlPlane of the hub.
func plane() controlplane.Plane {
	p := controlplane.Plane{Name: "hub", Namespace: "hub-control-plane"}
	p.Spec.Replicas = 1
	p.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "1Gi"}}
	p.Issuer = p.DefaultIssuer()
	return p
}

// flagsOf returns the flags of the container of a Deployment.
func flagsOf(t testing.TB, deployment render.Object) map[string]string {
	t.Helper()
	d := &appsv1.Deployment{}
	decode(t, deployment, d)
	flags := map[string]string{}
	for _, arg := range d.Spec.Template.Spec.Containers[0].Command[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	return flags
}

func decode(t testing.TB, object render.Object, into any) {
	t.Helper()
	u, err := render.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		t.Fatal(err)
	}
}

// asDedicated gives the API server of the hub the flags that a ControlPlane gives
// its own: admission, authentication of nobody, routing. Its address, its etcd and
// its keys are the suite's, and so are the names of their files.
func asDedicated(t testing.TB) func(*envtest.Environment) {
	t.Helper()
	flags := flagsOf(t, controlplane.APIServerDeployment(plane()))
	for _, name := range []string{
		"secure-port", "etcd-servers", "service-account-issuer", "shutdown-delay-duration", "encryption-provider-config-automatic-reload",
	} {
		delete(flags, name)
	}
	config := &corev1.ConfigMap{}
	decode(t, controlplane.APIServerConfig(plane()), config)
	folder := t.TempDir()
	for name, value := range flags {
		if !strings.HasPrefix(value, mounted) {
			continue
		}
		content, ours := config.Data[filepath.Base(value)]
		if !ours {
			delete(flags, name)
			continue
		}
		flags[name] = filepath.Join(folder, filepath.Base(value))
		if err := os.WriteFile(flags[name], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"authentication-config", "disable-admission-plugins"} {
		if flags[name] == "" {
			t.Fatalf("a dedicated hub has no flag %s any more, by which it differs", name)
		}
	}
	return func(e *envtest.Environment) {
		for name, value := range flags {
			e.ControlPlane.GetAPIServer().Configure().Set(name, value)
		}
	}
}

// controllersOf returns the controllers of Kubernetes that a cluster has.
func (at Setting) controllersOf(t testing.TB, cluster string) string {
	t.Helper()
	if !at.Dedicated || cluster != hubName {
		return controllers
	}
	return flagsOf(t, controlplane.ControllerManagerDeployment(plane()))["controllers"]
}
