// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAClusterJoinsAndLeaves goes through the life of a Push cluster, with the
// mistakes that are made on the way.
func TestAClusterJoinsAndLeaves(t *testing.T) {
	w := newWorld(t)
	const joined = "cluster(member1) is joined successfully\n"

	w.want(t, exit.OK, "managedcluster.cluster.open-cluster-management.io/member1 created (server dry run)", "", w.join("member1", "--dry-run=server")...)
	w.nothing(t, "member1")

	w.want(t, exit.OK, joined, "a loopback address", w.join("member1", "--cluster-region", "eu", "--cluster-zones", "a,b")...)
	connection := &fleetv1alpha1.ClusterConnection{}
	expect.NoError(t, w.hub.client.Get(t.Context(), client.ObjectKey{Name: "member1"}, connection))
	if connection.Spec.Region != "eu" || len(connection.Spec.Zones) != 2 {
		t.Errorf("where the cluster is was not written: %+v", connection.Spec)
	}
	w.delivers(t, "member1", "hello")

	w.want(t, exit.Failed, "", `the member has no ClusterRole "missing"`, w.join("member1", "--cluster-role", "missing")...)
	w.want(t, exit.OK, joined, "", w.join("member1", "--cluster-role", "view")...)
	chosen := client.ObjectKey{Name: "capstan:capstan-cluster:member1:role:view"}
	binding := &rbacv1.ClusterRoleBinding{}
	if err := w.member.client.Get(t.Context(), chosen, binding); err != nil || binding.RoleRef.Name != "view" {
		t.Errorf("the role that was chosen is not bound: %+v, %v", binding, err)
	}
	w.want(t, exit.OK, joined, "", w.join("member1")...)
	w.want(t, exit.Failed, "", `the cluster name member2 has been registered: this cluster has joined under the name "member1"`, w.join("member2")...)
	w.nothing(t, "member2")

	other := []string{"--cluster-kubeconfig", w.hub.kubeconfig}
	w.want(t, exit.Failed, "", `the cluster name member1 has been registered: "member1" is another cluster`, append([]string{"join", "member1"}, other...)...)
	w.want(t, exit.Failed, "", "the kubeconfig leads to the cluster", append([]string{"unjoin", "member1"}, other...)...)

	leave := []string{"unjoin", "member1", "--wait", patience.String()}
	w.want(t, exit.OK, "managedcluster.cluster.open-cluster-management.io/member1 deleted", "", append(leave, "--dry-run")...)
	w.want(t, exit.OK, "capstan unjoin member1 --cluster-kubeconfig FILE", "", leave...)
	if err := w.member.client.Get(t.Context(), client.ObjectKey{Name: "hello"}, &rbacv1.ClusterRole{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was delivered is still in the member: %v", err)
	}
	leave = append(leave, "--cluster-kubeconfig", w.member.kubeconfig)
	w.want(t, exit.OK, "cluster(member1) is unjoined successfully\n", "", leave...)
	w.nothing(t, "member1")
	if err := w.member.client.Get(t.Context(), chosen, binding); !apierrors.IsNotFound(err) {
		t.Errorf("the binding of the role that was chosen is still there: %v", err)
	}
	w.want(t, exit.Failed, "", `there is no cluster "member1"`, leave...)
}

// nothing fails the test if there is anything of the cluster on either side.
func (w *world) nothing(t *testing.T, name string) {
	t.Helper()
	key := client.ObjectKey{Name: name}
	for object, where := range map[client.Object]client.Client{
		&clusterv1.ManagedCluster{}: w.hub.client, &fleetv1alpha1.ClusterConnection{}: w.hub.client,
	} {
		if err := where.Get(t.Context(), key, object); !apierrors.IsNotFound(err) {
			t.Errorf("there is a %T %q on the hub: %v", object, name, err)
		}
	}
	if err := w.hub.client.Get(t.Context(), client.ObjectKey{Namespace: name, Name: fleetv1alpha1.DefaultSecretName}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a Secret for %q on the hub: %v", name, err)
	}
	ours := client.MatchingLabels{fleetv1alpha1.LabelPushCluster: name}
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.ServiceAccountList{}} {
		expect.NoError(t, w.member.client.List(t.Context(), list, ours))
		if count := meta.LenList(list); count > 0 {
			t.Errorf("there are %d objects of %q in a %T of the member", count, name, list)
		}
	}
}

// TestAClusterThatHasAnAgentBecomesAPushCluster joins a cluster of which an agent of its own told
// who it is.
func TestAClusterThatHasAnAgentBecomesAPushCluster(t *testing.T) {
	w := worlds.TakeFixture(t)
	system := &corev1.Namespace{}
	expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "member2", Annotations: map[string]string{"agent.open-cluster-management.io/cluster-uid": string(system.UID)}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	expect.NoError(t, w.hub.client.Create(t.Context(), mc))
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue, Reason: "ManagedClusterJoined",
	})
	expect.NoError(t, w.hub.client.Status().Patch(t.Context(), mc, client.MergeFrom(before)))

	// The namespace is being deleted, as after an earlier join, which takes a controller that
	// this member does not have.
	earlier := build.Namespace(fleetv1alpha1.DefaultMemberNamespace)
	cluster.CreateObjects(t, w.member.client, earlier)
	expect.NoError(t, w.member.client.Delete(t.Context(), earlier))
	w.want(t, exit.TimedOut, "", `the namespace "capstan-cluster" of the member is still being deleted`, w.join("member2", "--timeout", "1s")...)
	join := w.join("member2", "--cluster-namespace", "switched")
	w.want(t, exit.Failed, "", `cluster "member2" has an agent of its own (Pull)`, "unjoin", "member2")
	w.want(t, exit.OK, "The Klusterlet is no longer needed", "", join...)
	w.want(t, exit.OK, "cluster(member2) is joined successfully\n", "", join...)
	w.want(t, exit.OK, "cluster(member2) is unjoined successfully\n", "", "unjoin", "member2", "--cluster-kubeconfig", w.member.kubeconfig, "--wait", patience.String())
	w.nothing(t, "member2")
}

// stopper is an output that stops the command when it says the text.
type stopper struct {
	bytes.Buffer
	at   string
	stop context.CancelFunc
}

func (s *stopper) Write(text []byte) (int, error) {
	if strings.Contains(string(text), s.at) {
		s.stop()
	}
	return s.Buffer.Write(text)
}

// TestAJoinThatWasInterruptedIsFinished by another, and cleaned by unjoin.
func TestAJoinThatWasInterruptedIsFinished(t *testing.T) {
	w := worlds.TakeFixture(t)
	join := w.join("member3", "--cluster-namespace", "second")
	for _, at := range []string{"• Giving the hub access", "✓ Giving the hub access", "• Accepting the cluster", "• Waiting for the hub to connect"} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &stopper{at: at, stop: cancel}
		code := cli.RunCommandLine(ctx, cli.CommandLine{
			As: "capstan", Args: append(join, "--kubeconfig", w.hub.kubeconfig),
			Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}, Clock: clock.RealClock{},
		})
		cancel()
		if code != exit.Interrupted {
			t.Fatalf("stopped at %q: exit code %d, want %d:\n%s", at, code, exit.Interrupted, out)
		}
	}
	w.want(t, exit.OK, "cluster(member3) is joined successfully\n", "", join...)
	w.want(t, exit.OK, "cluster(member3) is unjoined successfully\n", "", "unjoin", "member3", "--cluster-kubeconfig", w.member.kubeconfig, "--wait", patience.String())
	w.nothing(t, "member3")
}
