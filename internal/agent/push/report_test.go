// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/dial"
)

// TestAReportSaysWhichSpecItIsAbout is what 'capstan join' and 'kubectl wait' wait
// for after a change of the spec: the outcome may be the one from before.
func TestAReportSaysWhichSpecItIsAbout(t *testing.T) {
	scheme, err := connect.HubScheme()
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	hub := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	})
	agent := &Agent{hub: hub}
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1}}
	if err := agent.reportOutcome(t.Context(), connection, sessionOutcome{}, "id"); err != nil || writes != 1 {
		t.Fatalf("%d writes of what is news, %v", writes, err)
	}
	connection.Status.ID, connection.Status.Conditions = "id", sessionOutcome{}.outcomeConditions()
	for i := range connection.Status.Conditions {
		connection.Status.Conditions[i].ObservedGeneration = 1
	}
	if err := agent.reportOutcome(t.Context(), connection, sessionOutcome{}, "id"); err != nil || writes != 1 {
		t.Errorf("%d further writes of what is known, %v", writes-1, err)
	}
	connection.Generation = 2
	if err := agent.reportOutcome(t.Context(), connection, sessionOutcome{}, "id"); err != nil || writes != 2 {
		t.Errorf("%d writes after a change of the spec, want one more: %v", writes, err)
	}
}

// What the Secret of a cluster is to be a copy of is what somebody has to create.
func TestASecretThatIsMissingIsToldWithTheOneThatIsCopied(t *testing.T) {
	connection := &fleetv1alpha1.ClusterConnection{Cluster: &fleetv1alpha1.ClusterProjection{AwaitedSecrets: []fleetv1alpha1.AwaitedSecret{
		{Copy: fleetv1alpha1.ImpersonatorSecretName, Message: "not this"}, {Copy: fleetv1alpha1.DefaultSecretName, Message: "create it"},
	}}}
	missing := dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonSecretMissing, Message: "there is none"}
	if got, want := describeAwaited(connection, missing).Message, "there is none, a copy of another one: create it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	expired := dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonTokenExpired, Message: "it expired"}
	if got := describeAwaited(connection, expired); got != expired {
		t.Errorf("a token that is there and bad: got %q", got.Message)
	}
	if got := describeAwaited(&fleetv1alpha1.ClusterConnection{}, missing); got != missing {
		t.Errorf("without the Cluster API: got %q", got.Message)
	}
}
