// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hub has one lease, and counts what is asked of it.
type hub struct {
	client.Client
	lease         *coordinationv1.Lease // nil if there is none
	reads, writes int
	refuse        error // of the next write
}

func (h *hub) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	h.reads++
	if h.lease == nil || key != client.ObjectKeyFromObject(h.lease) {
		return apierrors.NewNotFound(leases(), key.Name)
	}
	h.lease.DeepCopyInto(into.(*coordinationv1.Lease))
	return nil
}

func (h *hub) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	h.writes++
	if err := h.refuse; err != nil {
		h.refuse = nil
		return err
	}
	lease := object.(*coordinationv1.Lease)
	lease.ResourceVersion += "x"
	h.lease = lease.DeepCopy()
	return nil
}

func leases() schema.GroupResource {
	return schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

func start(h *hub) (*leaseRenewer, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	beats := &leaseRenewer{cluster: "c", reader: h, client: h, clock: clk}
	beats.every.Store(int64(durationDefault))
	return beats, clk
}

func leaseOf(cluster string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: clusterv1.LeaseName, ResourceVersion: "1"}}
}

func TestABeatIsOneWriteOfTheTime(t *testing.T) {
	t.Parallel()
	h := &hub{lease: leaseOf("c")}
	beats, clk := start(h)
	for n := 1; n <= 3; n++ {
		clk.Step(time.Minute)
		again, err := beats.renewLease(t.Context())
		expect.NoError(t, err)
		if h.reads != 1 || h.writes != n {
			t.Errorf("after %d beats: %d reads and %d writes, want one read in all and one write each", n, h.reads, h.writes)
		}
		if got := h.lease.Spec.RenewTime; got == nil || !got.Time.Equal(clk.Now()) {
			t.Errorf("the lease was renewed at %v, want %v", got, clk.Now())
		}
		if most := durationDefault + durationDefault/10; again < durationDefault || again > most {
			t.Errorf("the next beat is in %s, want %s and up to a tenth more", again, durationDefault)
		}
	}
}

func TestABeatThatMeetsAnotherWriterReadsAgainAtOnce(t *testing.T) {
	t.Parallel()
	h := &hub{lease: leaseOf("c"), refuse: apierrors.NewConflict(leases(), clusterv1.LeaseName, errors.New("another wrote"))}
	beats, _ := start(h)
	again, err := beats.renewLease(t.Context())
	if err != nil || again <= 0 || again > time.Second {
		t.Fatalf("after a conflict: again in %s, error %v; want it at once and without an error", again, err)
	}
	if _, err := beats.renewLease(t.Context()); err != nil || h.reads != 2 || h.lease.Spec.RenewTime == nil {
		t.Errorf("want the lease to be read again and renewed, got %d reads, %v and error %v", h.reads, h.lease.Spec.RenewTime, err)
	}
}

func TestABeatThatFailsSaysWhatAndReadsAgain(t *testing.T) {
	t.Parallel()
	h := &hub{}
	beats, _ := start(h)
	if _, err := beats.renewLease(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the lease c/"+clusterv1.LeaseName) {
		t.Errorf("without a lease: got error %v", err)
	}
	h.lease, h.refuse = leaseOf("c"), errors.New("the hub is away")
	if _, err := beats.renewLease(t.Context()); err == nil || !strings.Contains(err.Error(), "renewing the lease c/"+clusterv1.LeaseName+": the hub is away") {
		t.Errorf("with a hub that refuses: got error %v", err)
	}
	if _, err := beats.renewLease(t.Context()); err != nil || h.reads != 3 {
		t.Errorf("want the lease to be read after an error: %d reads, error %v", h.reads, err)
	}
}

func TestTheTimeBetweenBeatsIsThatOfTheCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object any
		want   time.Duration
	}{
		"as the cluster says":            {&clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{LeaseDurationSeconds: 5}}, 5 * time.Second},
		"the cluster says nothing":       {&clusterv1.ManagedCluster{}, durationDefault},
		"the cluster says nonsense":      {&clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{LeaseDurationSeconds: -1}}, durationDefault},
		"a cluster that was not seen go": {struct{}{}, durationDefault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := heartbeatInterval(c.object); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
