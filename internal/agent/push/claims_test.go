// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAStreamOfClaimsIsToldAtAPace has a user of the member change a claim a hundred times,
// each as soon as the hub was told of the one before.
func TestAStreamOfClaimsIsToldAtAPace(t *testing.T) {
	const changes, patienceEach, most = 100, 300 * time.Millisecond, 35 // 20, one every ten seconds, and the first ones of the connection
	l := newLab(t)
	l.start(local(), work.PartOptions{})
	l.join("c1")
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	scheme := runtime.NewScheme()
	expect.NoError(t, clusterv1alpha1.AddToScheme(scheme))
	member, err := client.New(l.member.config, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "first"}}
	expect.NoError(t, member.Create(t.Context(), claim))
	told := func(ctx context.Context) string {
		mc := &clusterv1.ManagedCluster{}
		expect.NoError(t, l.hub.client.Get(ctx, client.ObjectKey{Name: "c1"}, mc))
		for _, c := range mc.Status.ClusterClaims {
			if c.Name == claim.Name {
				return c.Value
			}
		}
		return ""
	}
	l.eventually("the first claim on the hub", func(ctx context.Context) (string, bool) {
		is := told(ctx)
		return is, is == claim.Spec.Value
	})
	written := 0
	start := time.Now()
	for i := range changes {
		before := told(t.Context())
		claim.Spec.Value = fmt.Sprint(i)
		expect.NoError(t, member.Update(t.Context(), claim))
		for begun := time.Now(); time.Since(begun) < patienceEach; time.Sleep(20 * time.Millisecond) {
			if told(t.Context()) != before {
				written++
				break
			}
		}
	}
	if limit := most + int(time.Since(start)/(10*time.Second)); written > limit {
		t.Errorf("of %d changes, %d were written one by one, want %d at most", changes, written, limit)
	}
	l.eventually("the last claim on the hub", func(ctx context.Context) (string, bool) {
		is := told(ctx)
		return is, is == claim.Spec.Value
	})
}
