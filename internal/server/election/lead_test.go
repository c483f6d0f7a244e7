// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

// patience is how long a test waits; the Lease lasts much longer, so what
// happens within it did not wait for the Lease.
const patience = time.Minute

// times has a Lease that no test lives to see running out.
func times() options.LeaderElection {
	return options.LeaderElection{LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour}
}

// server is an API server with a namespace for one test.
type server struct {
	config    *rest.Config
	clients   kubernetes.Interface
	namespace string
}

func newServer(t *testing.T) server {
	t.Helper()
	_, config := servers.Start(t)
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	return server{config: config, clients: clients}
}

// in returns the server with a new namespace.
func (s server) in(t *testing.T, namespace string) server {
	t.Helper()
	s.namespace = namespace
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.clients.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s server) pod(t *testing.T, name string) CandidatePod {
	t.Helper()
	created, err := s.clients.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		// With a node, the deletion of a pod waits for the node's kubelet.
		Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	return CandidatePod{Namespace: s.namespace, Name: name, UID: created.UID}
}

// delete marks the pod for deletion or, with now, removes it at once.
func (s server) delete(t *testing.T, name string, now bool) {
	t.Helper()
	o := metav1.DeleteOptions{}
	if now {
		o.GracePeriodSeconds = ptr.To[int64](0)
	}
	expect.NoError(t, s.clients.CoreV1().Pods(s.namespace).Delete(t.Context(), name, o))
}

func (s server) lock(t *testing.T, own CandidatePod) *Lock {
	t.Helper()
	return s.lockWith(t, own, times())
}

func (s server) lockWith(t *testing.T, own CandidatePod, times options.LeaderElection) *Lock {
	t.Helper()
	lock, err := NewLock(s.config, LockOptions{Namespace: s.namespace, Name: leaseName, Times: times, Pod: own})
	expect.NoError(t, err)
	return lock
}

// seize makes the pod the leader, as a process does that is killed then.
func (s server) seize(t *testing.T, own CandidatePod) *Lock {
	t.Helper()
	lock := s.lock(t, own)
	now := metav1.Now()
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity: lock.Identity(), LeaseDurationSeconds: 10_000, AcquireTime: now, RenewTime: now,
	}
	expect.NoError(t, lock.Create(t.Context(), record))
	return lock
}

func (s server) holder(t *testing.T) string {
	t.Helper()
	lease, err := s.clients.CoordinationV1().Leases(s.namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	expect.NoError(t, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// run is a candidate that works.
type run struct {
	leads  chan struct{}
	ended  chan error
	cancel context.CancelFunc
}

func (s server) start(t *testing.T, own CandidatePod) run {
	t.Helper()
	return s.startWith(t, s.lock(t, own))
}

func (s server) startWith(t *testing.T, lock *Lock) run {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := run{leads: make(chan struct{}), ended: make(chan error, 1), cancel: cancel}
	go func() {
		r.ended <- RunAsLeader(ctx, lock, func(ctx context.Context) error {
			close(r.leads)
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(cancel)
	return r
}

func (r run) waitLeads(t *testing.T) {
	t.Helper()
	select {
	case <-r.leads:
	case err := <-r.ended:
		t.Fatalf("the candidate ended before it led: %v", err)
	case <-time.After(patience):
		t.Fatal("the candidate does not lead")
	}
}

func (r run) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("a candidate that is told to end must end without an error, got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the candidate does not end")
	}
}

func TestLeadersAreReplacedLongBeforeTheirLeaseRunsOut(t *testing.T) {
	s := newServer(t)
	t.Run("AContainerThatRestartsHasTheLeaseOfItsPod", func(t *testing.T) {
		s := s.in(t, "restarted")
		a := s.pod(t, "a")
		s.seize(t, a)
		next := s.start(t, a)
		next.waitLeads(t)
		next.stop(t)
	})
	t.Run("APodThatWasKilledIsMissed", func(t *testing.T) {
		s := s.in(t, "killed")
		s.seize(t, s.pod(t, "a"))
		next := s.start(t, s.pod(t, "b"))
		s.delete(t, "a", true)
		next.waitLeads(t)
		next.stop(t)
	})
	t.Run("APodOfTheSameNameIsAnotherOne", func(t *testing.T) {
		s := s.in(t, "recreated")
		s.seize(t, s.pod(t, "a"))
		s.delete(t, "a", true)
		next := s.start(t, s.pod(t, "a"))
		next.waitLeads(t)
		next.stop(t)
	})
	t.Run("ALeaderThatEndsGivesUpItsLease", func(t *testing.T) {
		s := s.in(t, "terminated")
		first := s.start(t, s.pod(t, "a"))
		first.waitLeads(t)
		next := s.start(t, s.pod(t, "b"))
		s.delete(t, "a", false)
		first.stop(t)
		next.waitLeads(t)
		next.stop(t)
		if holder := s.holder(t); holder != "" {
			t.Errorf("all have ended, but the Lease is held by %q", holder)
		}
	})
	t.Run("AProcessOutsideOfPodsGivesUpItsLease", func(t *testing.T) {
		s := s.in(t, "process")
		for range 2 {
			process := s.start(t, CandidatePod{})
			process.waitLeads(t)
			process.stop(t)
		}
	})
	t.Run("TheLeaseOfALeaderThatRenewedMeanwhileIsNotTaken", func(t *testing.T) {
		s := s.in(t, "renewed")
		a := s.pod(t, "a")
		leader := s.seize(t, a)
		s.delete(t, "a", true)
		late := s.lock(t, s.pod(t, "b"))
		record, _, err := late.Get(t.Context())
		if err != nil || record.HolderIdentity != "" {
			t.Fatalf("the pod is gone, got %+v, %v", record, err)
		}
		renewed := resourcelock.LeaderElectionRecord{HolderIdentity: leader.Identity(), LeaseDurationSeconds: 10_000, RenewTime: metav1.Now()}
		expect.NoError(t, leader.Update(t.Context(), renewed))
		record.HolderIdentity = late.Identity()
		if err := late.Update(t.Context(), *record); !apierrors.IsConflict(err) {
			t.Errorf("the Lease has changed since it was looked at, want a conflict, got %v", err)
		}
	})
	t.Run("ALeaderThatWasReplacedDoesNotGiveUpTheLeaseOfTheNextOne", func(t *testing.T) {
		s := s.in(t, "replaced")
		old := s.seize(t, s.pod(t, "a"))
		s.delete(t, "a", true)
		b := s.pod(t, "b")
		next := s.start(t, b)
		next.waitLeads(t)
		if _, _, err := old.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect.NoError(t, old.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}))
		if got := s.holder(t); got != b.candidateIdentity() {
			t.Errorf("want the Lease with %s, which works, got %q", b.candidateIdentity(), got)
		}
		next.stop(t)
	})
	t.Run("ALeaseIsGivenUpWhenTheWorkHasEnded", func(t *testing.T) {
		s := s.in(t, "order")
		ctx, cancel := context.WithCancel(t.Context())
		var held atomic.Bool
		wrong := errors.New("what the work ended with")
		err := RunAsLeader(ctx, s.lock(t, s.pod(t, "a")), func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			held.Store(s.holder(t) != "") //nolint:contextcheck // this context has ended
			return wrong
		})
		if !errors.Is(err, wrong) || !held.Load() || s.holder(t) != "" {
			t.Errorf("want the Lease held during the work (%t), given up after it (%q), and its error, got %v", held.Load(), s.holder(t), err)
		}
	})
}

// TestALeaderEndsWhenItSeesAnotherOne has somebody else put its name into the Lease of a leader
// that works, and has no reason to believe that its time is over.
func TestALeaderEndsWhenItSeesAnotherOne(t *testing.T) {
	s := newServer(t).in(t, "seized")
	soon := times()
	soon.RetryPeriod = time.Second
	old := s.startWith(t, s.lockWith(t, s.pod(t, "a"), soon))
	old.waitLeads(t)
	thief := s.lock(t, s.pod(t, "b"))
	seizes := fmt.Appendf(nil, `{"spec":{"holderIdentity":%q}}`, thief.Identity()) // whatever the leader writes meanwhile
	_, err := s.clients.CoordinationV1().Leases(s.namespace).Patch(t.Context(), leaseName, types.MergePatchType, seizes, metav1.PatchOptions{})
	expect.NoError(t, err)
	select {
	case err := <-old.ended:
		if !errors.Is(err, ErrNotLeader) {
			t.Errorf("a leader that was replaced ends with %v", err)
		}
	case <-time.After(patience):
		t.Error("two replicas work, for as long as the Lease of the first lasts")
	}
	if got := s.holder(t); got != thief.Identity() {
		t.Errorf("the Lease of the next one is held by %q", got)
	}
}

// TestALeaderThatNobodyCouldAskLeadsAgain takes the API server away from a leader until its time is over, and has
// it lead again with the same lock, although its Lease lasts for hours.
func TestALeaderThatNobodyCouldAskLeadsAgain(t *testing.T) {
	s := newServer(t).in(t, "outage")
	var outages outage.WrappedServer
	s.config = rest.CopyConfig(s.config)
	s.config.Wrap(outages.WrapTransport)
	lock := s.lockWith(t, CandidatePod{}, options.LeaderElection{LeaseDuration: 3 * time.Hour, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond})
	first := s.startWith(t, lock)
	first.waitLeads(t)
	outages.EndNow()
	select {
	case err := <-first.ended:
		if !errors.Is(err, ErrNotLeader) {
			t.Fatalf("a leader that cannot renew its Lease ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a leader works on that cannot renew its Lease")
	}
	if got := s.holder(t); got != lock.Identity() {
		t.Errorf("the Lease was given up by who could ask nobody: %q has it", got)
	}
	lock.times.RenewDeadline = 2 * time.Hour // it is not to be lost again, on whatever machine
	again := s.startWith(t, lock)
	outages.ComesBack(t, 0)
	again.waitLeads(t)
	again.stop(t)
	if got := s.holder(t); got != "" {
		t.Errorf("all have ended, but the Lease is held by %q", got)
	}
}

// TestALeaseIsNotGivenUpDuringTheWork: the next one would work beside it.
func TestALeaseIsNotGivenUpDuringTheWork(t *testing.T) {
	lock, err := NewLock(&rest.Config{Host: "https://nobody.invalid"}, LockOptions{Namespace: namespace, Name: leaseName, Times: times()})
	expect.NoError(t, err)
	lock.recordWrite(resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()})
	leading, lost := context.WithCancel(t.Context())
	err = lock.runWhileLeading(t.Context(), leading, func(ctx context.Context) error {
		lost()
		<-ctx.Done()
		return lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}) //nolint:contextcheck // this context has ended
	})
	if !errors.Is(err, ErrNotLeader) || err.Error() != ErrNotLeader.Error() {
		t.Errorf("want that nobody is asked, got %v", err)
	}
}

// TestAWriteIsNotBrokenOff: who stops while it takes the Lease must know
// whether it has it, or nobody gives it up.
func TestAWriteIsNotBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-r.Context().Done(): // the client has gone
		case <-time.After(100 * time.Millisecond):
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"lock"}}`); err != nil {
			t.Log(err)
		}
	}))
	defer server.Close()
	lock, err := NewLock(&rest.Config{Host: server.URL}, LockOptions{Namespace: namespace, Name: leaseName, Times: times()})
	expect.NoError(t, err)
	if err := lock.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()}); err != nil || !lock.held {
		t.Errorf("the Lease was made, want that it is held, got %t, %v", lock.held, err)
	}
}
