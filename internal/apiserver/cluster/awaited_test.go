// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/secretcopy"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// racing is the one ClusterConnection of a hub, whose first write loses against
// another one.
type racing struct {
	connectionStore
	stored *fleetv1alpha1.ClusterConnection
	// other is that write; it is nil once it was made.
	other func(*fleetv1alpha1.ClusterConnection)
}

func (r *racing) Get(context.Context, string, metav1.GetOptions) (*fleetv1alpha1.ClusterConnection, error) {
	return r.stored.DeepCopy(), nil
}

func (r *racing) Update(_ context.Context, c *fleetv1alpha1.ClusterConnection, _ metav1.UpdateOptions) (*fleetv1alpha1.ClusterConnection, error) {
	if r.other != nil {
		r.other(r.stored)
		r.other = nil
		return nil, conflictError(c.Name)
	}
	r.stored = c.DeepCopy()
	return c, nil
}

// member is the ManagedCluster of the cluster.
type member struct{ managedClusterStore }

func (member) Get(context.Context, string, metav1.GetOptions) (*clusterv1.ManagedCluster, error) {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "u"}}, nil
}

// A Secret that is copied while somebody writes another reference must not be what the
// cluster ends up with.
func TestACopyThatIsOvertakenIsMadeAnew(t *testing.T) {
	now := time.Unix(1e9, 0)
	refer := func(name string) *fleetv1alpha1.NamespacedSecretReference {
		return &fleetv1alpha1.NamespacedSecretReference{Namespace: "karmada-cluster", Name: name}
	}
	for name, test := range map[string]struct {
		other func(*fleetv1alpha1.ClusterConnection)
		want  string
	}{
		"by a report": {func(*fleetv1alpha1.ClusterConnection) {}, "earlier"},
		"by another reference": {func(c *fleetv1alpha1.ClusterConnection) {
			c.Cluster.SecretRef, c.Cluster.AwaitedSecrets = refer("later"), nil // the write has copied that
		}, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &fleetv1alpha1.ClusterConnection{
				ObjectMeta: metav1.ObjectMeta{Name: "one"},
				Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://one"},
				Cluster: &fleetv1alpha1.ClusterProjection{
					UID: "u", SecretRef: refer("earlier"),
					AwaitedSecrets: []fleetv1alpha1.AwaitedSecret{{Copy: fleetv1alpha1.DefaultSecretName, RequestedAt: metav1.NewTime(now)}},
				},
			}
			core := fake.NewClientset()
			for _, secret := range []string{"earlier", "later"} {
				o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: secret}, Data: map[string][]byte{"token": []byte(secret)}}
				if err := core.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
			w := &clusterWriter{
				hub:     &hubStore{connections: &racing{stored: stored, other: test.other}, clusters: member{}},
				secrets: secretcopy.SecretCopier{Core: core, View: clusterView(), FieldManager: fieldManager},
				rights: requesterRights{reviewer: access.ReviewerFunc(func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, string, error) {
					return true, "", nil
				})},
				clock: clocktesting.NewFakePassiveClock(now),
			}
			waits, err := w.CopyAwaited(t.Context(), "one")
			if err != nil || waits {
				t.Fatalf("the cluster waits: %t (%v), want that it does not any more", waits, err)
			}
			copied, err := core.CoreV1().Secrets("one").Get(t.Context(), fleetv1alpha1.DefaultSecretName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(copied.Data["token"]); got != test.want {
				t.Errorf("the copy is that of Secret %s, want that of %s, to which the Cluster refers", got, test.want)
			}
		})
	}
}
