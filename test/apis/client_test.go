// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	apply "github.com/capstan-io/capstan/apis/fleet/client/applyconfiguration/fleet/v1alpha1"
	fleet "github.com/capstan-io/capstan/apis/fleet/client/versioned"
	typed "github.com/capstan-io/capstan/apis/fleet/client/versioned/typed/fleet/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// clientPatience is how long a test waits for what has to come.
	clientPatience = time.Minute
	manager        = "test"
)

// typedClient is what the clients of all kinds have in common.
type typedClient[T, L any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

func TestTheClientOfTheFleet(t *testing.T) {
	environment, config := env.Start(t, func(environment *envtest.Environment) {
		environment.CRDDirectoryPaths = []string{"../../config/crd"}
	})
	all, err := fleet.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := all.FleetV1alpha1()
	named := metav1.ObjectMeta{Name: "first"}

	exercise(t, "ClusterConnection", c.ClusterConnections(), &fleetv1alpha1.ClusterConnection{ObjectMeta: named})
	exercise(t, "ControlPlane", c.ControlPlanes("default"), &fleetv1alpha1.ControlPlane{
		ObjectMeta: named, Spec: fleetv1alpha1.ControlPlaneSpec{Version: "v1.36.3"},
	})
	exercise(t, "PropagationRevision", c.PropagationRevisions(), &fleetv1alpha1.PropagationRevision{
		ObjectMeta: named, Spec: fleetv1alpha1.PropagationRevisionSpec{RolloutName: "web", BindingName: "web", Revision: 1, Content: []byte("content")},
	})
	rollout := fleetv1alpha1.PropagationRolloutSpec{Policy: &fleetv1alpha1.RolloutPolicy{Name: "web"}}
	exercise(t, "PropagationRollout", c.PropagationRollouts("default"), &fleetv1alpha1.PropagationRollout{ObjectMeta: named, Spec: rollout})
	exercise(t, "ClusterPropagationRollout", c.ClusterPropagationRollouts(), &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: named, Spec: rollout})

	t.Run("server-side apply keeps what others have set", func(t *testing.T) { applies(t, c) })
	t.Run("the program of the page", func(t *testing.T) { runsTheProgram(t, environment, c) })
}

// exercise lets a client do all that it can with an object.
func exercise[T client.Object, L client.ObjectList](t *testing.T, kind string, c typedClient[T, L], object T) {
	t.Run(kind, func(t *testing.T) {
		ctx := t.Context()
		changes, err := c.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer changes.Stop()
		created, err := c.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		expect.NextEvent(t, changes, watch.Added)
		created.SetLabels(map[string]string{"changed": "yes"})
		if _, err := c.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("update: %v", err)
		}
		expect.NextEvent(t, changes, watch.Modified)
		got, err := c.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		if got.GetLabels()["changed"] != "yes" || got.GetUID() != created.GetUID() {
			t.Errorf("get: %v is not what was written: %v", got, created)
		}
		list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "changed=yes"})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if list.GetResourceVersion() == "" {
			t.Error("list: it has no resource version to watch from")
		}
		if err := c.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete: %v", err)
		}
		expect.NextEvent(t, changes, watch.Deleted)
		if _, err := c.Get(ctx, object.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get after delete: got %v, want that there is none", err)
		}
	})
}

func applies(t *testing.T, c typed.FleetV1alpha1Interface) {
	ctx := t.Context()
	connections := c.ClusterConnections()
	other := metav1.ApplyOptions{FieldManager: "other"}
	if _, err := connections.Apply(ctx, apply.ClusterConnection("applied").WithLabels(map[string]string{"of": "other"}).
		WithSpec(apply.ClusterConnectionSpec().WithRegion("north")), other); err != nil {
		t.Fatal(err)
	}
	mine := apply.ClusterConnection("applied").WithSpec(apply.ClusterConnectionSpec().WithProvider("example").WithZones("a", "b"))
	got, err := connections.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
	want := fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePull, Provider: "example", Region: "north", Zones: []string{"a", "b"}}
	if diff := cmp.Diff(want, got.Spec); diff != "" || got.Labels["of"] != "other" {
		t.Errorf("labels %v, spec (-want +got):\n%s", got.Labels, diff)
	}
	conflicting := apply.ClusterConnection("applied").WithSpec(apply.ClusterConnectionSpec().WithRegion("south"))
	if _, err := connections.Apply(ctx, conflicting, metav1.ApplyOptions{FieldManager: manager}); !apierrors.IsConflict(err) {
		t.Errorf("applying a field of somebody else: got %v, want a conflict", err)
	}
	status := apply.ClusterConnection("applied").WithStatus(apply.ClusterConnectionStatus().WithKubernetesVersion("v1.36.3"))
	got, err = connections.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.KubernetesVersion != "v1.36.3" || got.Spec.Region != "north" {
		t.Errorf("after the status was applied: spec %v, status %v", got.Spec, got.Status)
	}
}

// runsTheProgram runs the program of docs/clients.md, which waits until the hub
// is connected.
func runsTheProgram(t *testing.T, environment *envtest.Environment, c typed.FleetV1alpha1Interface) {
	const cluster = "example"
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	changes, err := c.ClusterConnections().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	folder := newModule(t)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	program := exec.CommandContext(ctx, build(t, folder, "client"), kubeconfig, cluster)
	program.Stdout, program.Stderr = &out, &out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	expect.NextEvent(t, changes, watch.Added)
	connection, err := c.ClusterConnections().Get(ctx, cluster, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	connection.Status.KubernetesVersion = "v1.36.3"
	connection.Status.Conditions = []metav1.Condition{{
		Type: fleetv1alpha1.ClusterConnectionConditionConnected, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
	}}
	if _, err := c.ClusterConnections().UpdateStatus(ctx, connection, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("the program failed: %v", err)
	}
	if !strings.Contains(out.String(), "example has Kubernetes v1.36.3") {
		t.Errorf("the program did not see the status; it printed:\n%s", out.String())
	}
}
