// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// reportingSession is a session whose writes to the hub are counted.
func reportingSession(t *testing.T, clk clock.Clock, writes *int) *session {
	t.Helper()
	scheme, err := connect.HubScheme()
	expect.NoError(t, err)
	hub := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			*writes++
			return nil
		},
	})
	return &session{agent: &Agent{hub: hub, options: AgentOptions{Clock: clk}}, reports: newReportLimit()}
}

// TestAClusterThatFlipsIsToldAtAPace has a cluster refuse its token every other second for an hour.
func TestAClusterThatFlipsIsToldAtAPace(t *testing.T) {
	const seconds = 3600
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	writes := 0
	session := reportingSession(t, clk, &writes)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1}}
	refused := dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonUnauthorized, Message: "the API server refuses the token"}
	look := func() (wait time.Duration) {
		before := writes
		wait, err := session.reportOutcome(t.Context(), connection)
		if err != nil {
			t.Fatal(err)
		}
		if writes > before { // the cache shows it
			connection.Status.Conditions = session.outcome.outcomeConditions()
			for i := range connection.Status.Conditions {
				connection.Status.Conditions[i].ObservedGeneration = connection.Generation
			}
		}
		return wait
	}
	for second := range seconds {
		session.outcome = sessionOutcome{}
		if second%2 == 1 {
			session.outcome = sessionOutcome{connected: refused, credentials: refused}
		}
		look()
		if second == reportsAtOnce && writes < reportsAtOnce {
			t.Errorf("%d of the first %d changes are told", writes, reportsAtOnce)
		}
		clk.Step(time.Second)
	}
	if most := reportsAtOnce + seconds/int(reportEvery.Seconds()) + 2; writes > most {
		t.Errorf("%d writes in an hour, want %d at most", writes, most)
	}
	last := writes
	connection.Generation++
	if wait := look(); wait > 0 || writes != last+1 {
		t.Errorf("the first report about a spec waits %s", wait)
	}
	session.outcome.connected = dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonUnreachable, Message: "at last"}
	clk.Step(look())
	if look(); writes != last+2 {
		t.Error("the last state is not told")
	}
}

// TestAReportSaysWhichSpecItIsAbout is what 'capstan join' and 'kubectl wait' wait
// for after a change of the spec: the outcome may be the one from before.
func TestAReportSaysWhichSpecItIsAbout(t *testing.T) {
	writes := 0
	session := reportingSession(t, clock.RealClock{}, &writes)
	session.id = "id"
	report := func(connection *fleetv1alpha1.ClusterConnection) error {
		_, err := session.reportOutcome(t.Context(), connection)
		return err
	}
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1}}
	if err := report(connection); err != nil || writes != 1 {
		t.Fatalf("%d writes of what is news, %v", writes, err)
	}
	connection.Status.ID, connection.Status.Conditions = "id", sessionOutcome{}.outcomeConditions()
	for i := range connection.Status.Conditions {
		connection.Status.Conditions[i].ObservedGeneration = 1
	}
	if err := report(connection); err != nil || writes != 1 {
		t.Errorf("%d further writes of what is known, %v", writes-1, err)
	}
	connection.Generation = 2
	if err := report(connection); err != nil || writes != 2 {
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
