// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// patience is long, for machines that are busy; no test waits for its end.
const patience = 2 * time.Minute

// cluster is a cluster without nodes: that pods run is said by the tests.
type cluster struct {
	client.WithWatch
	wait Waiter
}

func (c *cluster) install(t *testing.T, operator Operator, options OperatorOptions) {
	t.Helper()
	objects, err := operator.RenderObjects(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := ApplyObjects(t.Context(), c, objects...); err != nil {
		t.Fatal(err)
	}
	if err := c.wait.AwaitEstablished(t.Context(), operator.CRD()); err != nil {
		t.Fatal(err)
	}
}

func TestOperatorIsInstalledAndRemoved(t *testing.T) {
	_, config := env.Start(t)
	connected, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{WithWatch: connected, wait: Waiter{Client: connected, Timeout: patience}}
	c.install(t, ClusterManagerOperator(), OperatorOptions{Image: "example.com/i:1"})
	c.install(t, ClusterManagerOperator(), OperatorOptions{Image: "example.com/i:2", Replicas: 2}) // now it is a change
	t.Run("it is as it was asked for, and ours", c.testInstalled)
	t.Run("it is waited for", c.testWait)
	t.Run("it is removed, but not while it is needed", c.testRemoval)
}

func (c *cluster) testInstalled(t *testing.T) {
	deployment := c.operator(t)
	if got := OptionsOf(deployment); got.Image != "example.com/i:2" || got.Replicas != 2 {
		t.Errorf("the operator has %+v, not what the second installation said", got)
	}
	if managers := deployment.ManagedFields; len(managers) != 1 || managers[0].Manager != FieldOwner || managers[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("the fields are owned by %+v, not by %s alone", managers, FieldOwner)
	}
	if by := InstallerOf(deployment); by != ByCapstan {
		t.Errorf("the operator looks as if %s had installed it", by)
	}
}

func (c *cluster) operator(t *testing.T) *appsv1.Deployment {
	t.Helper()
	deployment, err := ClusterManagerOperator().Installed(t.Context(), c)
	if err != nil || deployment == nil {
		t.Fatalf("the operator is not there: %v", err)
	}
	return deployment
}

func (c *cluster) testWait(t *testing.T) {
	key := ClusterManagerOperator().DeploymentKey()
	short := Waiter{Client: c, Timeout: time.Millisecond}
	err := short.AwaitDeployment(t.Context(), key)
	if exit.Code(err) != exit.TimedOut || !strings.Contains(err.Error(), `Deployment "open-cluster-management/cluster-manager"`) {
		t.Errorf("nothing runs, and the wait for it ended with %v", err)
	}
	deployment := c.operator(t)
	deployment.Status.ObservedGeneration, deployment.Status.Replicas = deployment.Generation, 2
	deployment.Status.UpdatedReplicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 2, 2, 2
	if err := c.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if err := c.wait.AwaitDeployment(t.Context(), key); err != nil {
		t.Error(err)
	}
}

func (c *cluster) testRemoval(t *testing.T) {
	hub, err := ClusterManagerObject(ClusterManagerName, operatorv1.ClusterManagerSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ApplyObjects(t.Context(), c, hub); err != nil {
		t.Fatal(err)
	}
	operator := ClusterManagerOperator()
	if err := operator.RemoveOperator(t.Context(), c, c.wait); err == nil || !strings.Contains(err.Error(), "still ClusterManager cluster-manager") {
		t.Errorf("an operator that is needed was removed: %v", err)
	}
	if err := DeleteObject(t.Context(), c, hub); err != nil {
		t.Fatal(err)
	}
	// Nothing ends a namespace here; the other operator keeps it.
	c.install(t, KlusterletOperator(), OperatorOptions{})
	for range 2 { // the second time there is nothing to do
		if err := operator.RemoveOperator(t.Context(), c, c.wait); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := operator.Installed(t.Context(), c); err != nil || left != nil {
		t.Errorf("the operator is still there: %v", err)
	}
	if other, err := KlusterletOperator().Installed(t.Context(), c); err != nil || other == nil {
		t.Errorf("the other operator is gone: %v", err)
	}
}
